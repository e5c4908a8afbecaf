"""A network made of a function and of modules, for tests that write one network in several ways."""

from collections.abc import Callable

from torch import Tensor, nn


class Composed(nn.Module):
    """A function of the input and of some modules."""

    def __init__(self, function: Callable[..., Tensor], *owned: nn.Module) -> None:
        super().__init__()
        self.function, self.owned = function, nn.ModuleList(owned)

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, *self.owned)
