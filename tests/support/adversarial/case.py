"""The type of an adversarial case, and the networks made of it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace

import torch
from torch import Tensor, nn

from support.menagerie.randomise import randomise

BATCH = 4


@dataclass(frozen=True)
class Case:
    """`function(h)` between two linear layers, or `function(x, p)` with parameters of the given shapes."""

    function: Callable[..., Tensor]
    free: str | None = None  # sizes of the permuted axes, as "3 2 3"; None: not said
    parameters: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def network(self) -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = Weighted(self) if self.parameters else Between(self.function)
        randomise(model, generator=torch.Generator().manual_seed(0))
        return model.eval()

    @staticmethod
    def example() -> Tensor:
        return torch.randn(BATCH, 5, generator=torch.Generator().manual_seed(3))


class Between(nn.Module):
    """tanh of a linear layer [B, 8], the function, everything flattened, and a linear layer."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function
        self.first = nn.Linear(5, 8)
        with torch.no_grad():
            width = function(torch.randn(BATCH, 8)).reshape(BATCH, -1).shape[1]
        self.last = nn.Linear(width, 3)

    def forward(self, x: Tensor) -> Tensor:  # [B, 5] -> [B, 3]
        hidden = self.function(torch.tanh(self.first(x)))
        return self.last(hidden.to(x.dtype).reshape(len(x), -1))


class Weighted(nn.Module):
    """A function of the input and of named parameters."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        self.function = case.function
        self.weights = nn.ParameterDict(
            {name: nn.Parameter(torch.randn(shape)) for name, shape in case.parameters.items()}
        )

    def forward(self, x: Tensor) -> Tensor:  # [B, 5] -> [B, 3]
        return self.function(x, SimpleNamespace(**self.weights))
