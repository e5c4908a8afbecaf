"""Small random networks by family, on which the statements are tested."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import cycle, islice, pairwise
from random import Random
from typing import TypeVar

import torch
from torch import Tensor, nn

ACTIVATIONS = (nn.ReLU, nn.Tanh, nn.GELU, nn.Sigmoid)


@dataclass(frozen=True, eq=False)
class RandomNetwork:
    """A network in float64, and the shape of its input."""

    family: str
    model: nn.Module
    shape: tuple[int, ...]

    def example(self, seed: int) -> Tensor:
        return torch.randn(self.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def random_networks(seed: int, count: int, *families: str) -> Iterator[RandomNetwork]:
    """Yield random networks, cycling through the families; all families by default."""
    random = Random(seed)
    for family in islice(cycle(families or FAMILIES), count):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(random.randrange(2**31))
            model, shape = FAMILIES[family](random)
            yield RandomNetwork(family, _drawn(model), shape)


def random_mlp(widths: list[int], random: Random, *, bias: bool = True) -> nn.Sequential:
    """Return a multilayer perceptron in float64 with random weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(random.randrange(2**31))
        return _drawn(mlp_of(widths, bias=bias))


M = TypeVar("M", bound=nn.Module)


def _drawn(model: M) -> M:
    """Draw random weights and biases; zero biases would hide mistakes."""
    model = model.double()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.7)
    return model


# ------------------------------------------------------------------ parts


class Residual(nn.Module):
    def __init__(self, *branch: nn.Module) -> None:
        super().__init__()
        self.branch = nn.Sequential(*branch)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.branch(x)


class Repeated(nn.Module):
    """A module that is applied several times, with the same weights."""

    def __init__(self, inner: nn.Module, times: int) -> None:
        super().__init__()
        self.inner, self.times = inner, times

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(self.times):
            x = self.inner(x)
        return x


class SumPool(nn.Module):
    """Sum over all positions, for each channel."""

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(2).sum(2)


class DeepSetsLayer(nn.Module):
    """The permutation-equivariant linear layer: each element, and the sum of all."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.each, self.all = nn.Linear(inputs, outputs), nn.Linear(inputs, outputs, bias=False)

    def forward(self, x: Tensor) -> Tensor:  # [B, n, inputs] -> [B, n, outputs]
        return self.each(x) + self.all(x.sum(1, keepdim=True))


class SumElements(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.sum(1)


# ------------------------------------------------------------------ families

Made = tuple[nn.Module, tuple[int, ...]]


def mlp_of(
    widths: list[int], activation: Callable[[], nn.Module] = nn.ReLU, *, bias: bool = True
) -> nn.Sequential:
    """Return a multilayer perceptron with the given widths, including inputs and outputs."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layers += [nn.Linear(inputs, outputs, bias=bias), activation()]
    return nn.Sequential(*layers[:-1])


def _mlp(random: Random, *, bias: bool = True) -> Made:
    widths = [
        random.randint(1, 3),
        *(random.randint(2, 4) for _ in range(random.randint(1, 3))),
        random.randint(1, 3),
    ]
    return mlp_of(widths, random.choice(ACTIVATIONS), bias=bias), (1, widths[0])


def _mlp_without_biases(random: Random) -> Made:
    return _mlp(random, bias=False)


def _cnn_1d(random: Random) -> Made:
    inputs, first, second = random.randint(1, 2), random.randint(2, 3), random.randint(2, 3)
    model = nn.Sequential(
        nn.Conv1d(inputs, first, 3, padding=1),
        random.choice(ACTIVATIONS)(),
        nn.Conv1d(first, second, 2, stride=2),
        random.choice(ACTIVATIONS)(),
        nn.Conv1d(second, 2, 2),
    )
    return model, (1, inputs, random.randint(5, 7))


def _cnn_2d(random: Random) -> Made:
    """Return convolutions only, as in the paper's proposition on CNNs."""
    inputs, first, second = random.randint(1, 2), random.randint(2, 3), random.randint(2, 3)
    model = nn.Sequential(
        nn.Conv2d(inputs, first, 3, padding=1),
        random.choice(ACTIVATIONS)(),
        nn.Conv2d(first, second, 2, stride=random.randint(1, 2)),
        random.choice(ACTIVATIONS)(),
        nn.Conv2d(second, 2, random.randint(1, 2)),
    )
    return model, (1, inputs, 4, 4)


def _cnn_classifier(random: Random) -> Made:
    channels = random.randint(2, 4)
    model = nn.Sequential(
        nn.Conv2d(1, channels, 2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(9 * channels, 3),
        nn.Tanh(),
        nn.Linear(3, 2),
    )
    return model, (1, 1, 4, 4)


def _cnn_pooled(random: Random) -> Made:
    channels, pool = (
        random.randint(2, 4),
        random.choice([SumPool(), nn.Sequential(nn.AvgPool2d(3), nn.Flatten())]),
    )
    model = nn.Sequential(nn.Conv2d(2, channels, 2), nn.ReLU(), pool, nn.Linear(channels, 2))
    return model, (1, 2, 4, 4)


def _cnn_grouped(random: Random) -> Made:
    inner = random.randint(1, 2)
    model = nn.Sequential(
        nn.Conv2d(2, 4, 1),
        nn.Tanh(),
        nn.Conv2d(4, 4 * inner, 2, groups=2),
        nn.ReLU(),
        SumPool(),
        nn.Linear(4 * inner, 2),
    )
    return model, (1, 2, 3, 3)


def _residual_mlp(random: Random) -> Made:
    stream, inner = random.randint(2, 3), random.randint(2, 4)
    branch = (nn.Linear(stream, inner), random.choice(ACTIVATIONS)(), nn.Linear(inner, stream))
    return nn.Sequential(nn.Linear(2, stream), Residual(*branch), nn.Linear(stream, 2)), (1, 2)


def _residual_cnn(random: Random) -> Made:
    stream, inner = random.randint(2, 3), random.randint(2, 3)
    branch = (nn.Conv2d(stream, inner, 3, padding=1), nn.ReLU(), nn.Conv2d(inner, stream, 1))
    model = nn.Sequential(
        nn.Conv2d(1, stream, 2), nn.Tanh(), Residual(*branch), nn.ReLU(), SumPool(), nn.Linear(stream, 2)
    )
    return model, (1, 1, 4, 4)


def _residual_linear(random: Random) -> Made:
    """Return a network with a residual connection around one linear layer."""
    stream = random.randint(2, 4)
    return nn.Sequential(
        nn.Linear(2, stream), Residual(nn.Linear(stream, stream)), nn.ReLU(), nn.Linear(stream, 1)
    ), (1, 2)


def _deep_sets(random: Random) -> Made:
    hidden = random.randint(2, 4)
    model = nn.Sequential(
        DeepSetsLayer(2, hidden),
        nn.ReLU(),
        DeepSetsLayer(hidden, 3),
        nn.Tanh(),
        SumElements(),
        nn.Linear(3, 2),
    )
    return model, (1, random.randint(2, 3), 2)


def _shared_block(random: Random) -> Made:
    stream, inner = random.randint(2, 3), random.randint(2, 3)
    block = Residual(nn.Linear(stream, inner), nn.ReLU(), nn.Linear(inner, stream))
    return nn.Sequential(nn.Linear(2, stream), Repeated(block, 2), nn.Linear(stream, 2)), (1, 2)


FAMILIES: dict[str, Callable[[Random], Made]] = {
    "mlp": _mlp,
    "mlp without biases": _mlp_without_biases,
    "cnn, one-dimensional": _cnn_1d,
    "cnn, convolutions only": _cnn_2d,
    "cnn, flattened": _cnn_classifier,
    "cnn, pooled": _cnn_pooled,
    "cnn, grouped": _cnn_grouped,
    "residual mlp": _residual_mlp,
    "residual cnn": _residual_cnn,
    "residual around one layer": _residual_linear,
    "deep sets": _deep_sets,
    "a block used twice": _shared_block,
}
