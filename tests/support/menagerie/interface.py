"""Networks with several inputs, keyword inputs, and outputs that are not one tensor."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .architecture import architecture
from .inputs import Draw, fixed, inputs, normal

interface = partial(architecture, family="interface", example=inputs(normal(15, 5)))


class TwoHeads(nn.Module):
    """A trunk with a head for the mean and one for the deviation."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(5, 11), nn.ReLU())
        self.mean = nn.Linear(11, 3)
        self.deviation = nn.Linear(11, 2)


@dataclass
class Prediction:
    """What DataclassOutput returns."""

    mean: Tensor
    deviation: Tensor
    note: str = "not a tensor"


@interface("output-dataclass")
class DataclassOutput(TwoHeads):
    """Two heads returned in a dataclass."""

    def forward(self, x: Tensor) -> Prediction:
        hidden = self.trunk(x)
        return Prediction(self.mean(hidden), F.softplus(self.deviation(hidden)))


@interface("output-dict")
class DictOutput(TwoHeads):
    """Two heads returned in a nested dict."""

    def forward(self, x: Tensor) -> dict[str, object]:
        hidden = self.trunk(x)
        return {"mean": self.mean(hidden), "rest": {"deviation": self.deviation(hidden).exp()}}


@interface("output-tuple")
class TupleOutput(TwoHeads):
    """Two heads returned in a nested tuple, next to a None."""

    def forward(self, x: Tensor) -> tuple[Tensor, tuple[Tensor, None]]:
        hidden = self.trunk(x)
        return self.mean(hidden) + hidden.mean(), (self.deviation(hidden), None)


@interface("output-hidden")
class HiddenOutput(TwoHeads):
    """Hidden channels returned besides what is computed from them."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        hidden = self.trunk(x)
        return self.mean(hidden), self.deviation(hidden), hidden


@interface("inputs-keyword", example=inputs(x=normal(15, 5), condition=normal(15, 3)))
class KeywordInputs(nn.Module):
    """Two inputs passed by name, one of them optional."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(5, 11)
        self.condition = nn.Linear(3, 11, bias=False)
        self.head = nn.Linear(11, 2)

    def forward(self, *, x: Tensor, condition: Tensor | None = None) -> Tensor:
        hidden = self.embed(x)
        if condition is not None:
            hidden = hidden + self.condition(condition)
        return self.head(hidden.relu())


def pair(first: Draw, second: Draw) -> Draw:
    """Draw two inputs passed as one list."""
    return lambda generator: [first(generator), second(generator)]


@interface(
    "inputs-nested",
    example=inputs(pair(normal(15, 5), normal(15, 3)), fixed(2), scale=fixed(0.5)),
)
class NestedInputs(nn.Module):
    """A list of tensors, a plain integer and a plain float as inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.embeds = nn.ModuleList([nn.Linear(5, 11), nn.Linear(3, 11)])
        self.mix = nn.Linear(11, 11)
        self.head = nn.Linear(11, 2)

    def forward(self, parts: Sequence[Tensor], repeats: int, *, scale: float) -> Tensor:
        first, second = (embed(part) for embed, part in zip(self.embeds, parts, strict=True))
        hidden = torch.maximum(first, second)
        for _ in range(repeats):
            hidden = scale * self.mix(hidden).tanh()
        return self.head(hidden)


@interface(
    "inputs-masked-mean",
    example=inputs(normal(2, 6, 5), mask=fixed(torch.arange(6) < torch.tensor([[4], [6]]))),
)
class MaskedMean(nn.Module):
    """A mean over the positions a boolean mask allows."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(5, 9)
        self.head = nn.Linear(9, 2)

    def forward(self, x: Tensor, *, mask: Tensor) -> Tensor:  # [B, N, 5], [B, N] -> [B, 2]
        hidden = self.embed(x).tanh().masked_fill(~mask[..., None], 0.0)
        return self.head(hidden.sum(dim=1) / mask.sum(dim=1, keepdim=True))


@interface("image-and-text", example=inputs(normal(2, 3, 6, 8), normal(2, 7, 5)))
class ImageAndText(nn.Module):
    """Cosine similarities between two towers of different kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.image = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 6, 3))
        self.text = nn.Sequential(nn.Linear(5, 9), nn.ReLU(), nn.Linear(9, 6))
        self.temperature = nn.Parameter(torch.tensor(1.0))

    def forward(self, image: Tensor, text: Tensor) -> Tensor:  # -> [B, B]
        image = F.normalize(self.image(image).mean(dim=(2, 3)), dim=-1)
        text = F.normalize(self.text(text).mean(dim=1), dim=-1)
        return self.temperature.exp() * image @ text.T
