"""Networks of a few neurons in each layer, small enough to try every permutation."""

from collections.abc import Callable
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from support.grammar.attention import Attention


class Residual(nn.Module):
    def __init__(self, branch: nn.Module):
        super().__init__()
        self.branch = branch

    def forward(self, x: Tensor) -> Tensor:
        return x + self.branch(x)


class TinyDeepSets(nn.Module):
    """Elements are mapped alone and together with the sum of all."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.alone, self.together = nn.Linear(inputs, outputs), nn.Linear(inputs, outputs, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.alone(x) + self.together(x.sum(-2, keepdim=True))


class Tied(nn.Module):
    """An autoencoder whose decoder is the transpose of its encoder."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 4)

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.inner(x)) @ self.inner.weight


class Shared(nn.Module):
    """One layer, applied twice."""

    def __init__(self):
        super().__init__()
        self.first, self.again, self.last = nn.Linear(2, 3), nn.Linear(3, 3), nn.Linear(3, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.first(x))
        return self.last(torch.tanh(self.again(torch.tanh(self.again(x)))))


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.value, self.last = nn.Linear(2, 3), nn.Linear(2, 3), nn.Linear(3, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.sigmoid(self.gate(x)) * self.value(x))


class Joined(nn.Module):
    """Two branches side by side, with different functions."""

    def __init__(self):
        super().__init__()
        self.left, self.right, self.last = nn.Linear(2, 3), nn.Linear(2, 2), nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.cat([torch.tanh(self.left(x)), torch.relu(self.right(x))], -1))


class Branches(nn.Module):
    """Two branches of the same layers, added: they may change places."""

    def __init__(self):
        super().__init__()
        self.left, self.right, self.last = nn.Linear(2, 3), nn.Linear(2, 3), nn.Linear(3, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.tanh(self.left(x)) + torch.tanh(self.right(x)))


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.last = nn.Embedding(3, 4), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.words(x).mean(-2))


class Rotary(nn.Module):
    """Queries and keys are rotated in pairs; values are not."""

    def __init__(self):
        super().__init__()
        self.embed, self.last = nn.Linear(2, 2), nn.Linear(8, 1)
        self.query, self.key, self.value = (nn.Linear(2, 8) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x)
        angle = torch.arange(x.shape[1])[:, None] * torch.tensor([1.0, 0.1]).repeat(2)
        query, key, value = (f(x).unflatten(-1, (2, 4)).transpose(1, 2) for f in self.projections)
        query, key = (
            v * angle.cos() + torch.cat([-v[..., 2:], v[..., :2]], -1) * angle.sin() for v in (query, key)
        )
        return self.last(F.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2))

    @property
    def projections(self) -> list[nn.Linear]:
        return [self.query, self.key, self.value]


def mlp(*widths: int, activation: Callable[[], nn.Module] = nn.Tanh, bias: bool = True) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layers += [nn.Linear(inputs, outputs, bias=bias), activation()]
    return nn.Sequential(*layers[:-1])


def network(*layers: nn.Module) -> nn.Sequential:
    return nn.Sequential(*layers).eval()


TINY: dict[str, tuple[nn.Module, Tensor, int]] = {
    # network, input, number of permutations by hand
    "perceptron": (mlp(2, 3, 2), torch.randn(1, 2), 6),
    "without bias": (mlp(2, 3, 3, 2, bias=False), torch.randn(1, 2), 36),
    "two hidden layers": (mlp(2, 3, 2, 1), torch.randn(1, 2), 12),
    "four hidden layers": (mlp(1, 2, 3, 2, 4, 1, activation=nn.ReLU), torch.randn(1, 1), 2 * 6 * 2 * 24),
    "one neuron": (mlp(2, 1, 2), torch.randn(1, 2), 1),
    "nothing free": (nn.Linear(2, 2), torch.randn(1, 2), 1),
    "layer norm": (
        network(nn.Linear(2, 4), nn.LayerNorm(4), nn.ReLU(), nn.Linear(4, 1)),
        torch.randn(1, 2),
        24,
    ),
    "a slope for each channel": (
        network(nn.Linear(2, 3), nn.PReLU(3), nn.Linear(3, 1)),
        torch.randn(1, 2),
        6,
    ),
    "convolutions": (
        network(nn.Conv1d(2, 3, 2), nn.BatchNorm1d(3), nn.ReLU(), nn.Conv1d(3, 1, 2)),
        torch.randn(1, 2, 5),
        6,
    ),
    "convolutions in two dimensions": (
        network(nn.Conv2d(1, 3, 2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(3, 2, 1)),
        torch.randn(1, 1, 5, 5),
        6,
    ),
    "transposed convolution": (
        network(nn.ConvTranspose1d(2, 3, 2), nn.Tanh(), nn.Conv1d(3, 1, 1)),
        torch.randn(1, 2, 3),
        6,
    ),
    "groups of channels": (
        network(nn.Conv1d(1, 4, 1), nn.Tanh(), nn.Conv1d(4, 4, 2, groups=2), nn.Tanh(), nn.Conv1d(4, 1, 1)),
        torch.randn(1, 1, 3),
        2 * 2**2 * 2**2,
    ),
    "depthwise": (
        network(nn.Conv1d(1, 3, 1), nn.Conv1d(3, 3, 2, groups=3), nn.Tanh(), nn.Conv1d(3, 1, 1)),
        torch.randn(1, 1, 3),
        6,
    ),
    "flattened": (
        network(nn.Conv1d(1, 3, 2), nn.Tanh(), nn.Flatten(), nn.Linear(6, 2)),
        torch.randn(1, 1, 3),
        6,
    ),
    "residual": (
        network(nn.Linear(2, 3), Residual(mlp(3, 4, 3)), Residual(mlp(3, 2, 3)), nn.Linear(3, 1)),
        torch.randn(1, 2),
        6 * 24 * 2,
    ),
    "residual convolutions": (
        network(
            nn.Conv1d(1, 3, 1),
            Residual(
                network(nn.Conv1d(3, 2, 3, padding=1), nn.BatchNorm1d(2), nn.ReLU(), nn.Conv1d(2, 3, 1))
            ),
            nn.Conv1d(3, 1, 1),
        ),
        torch.randn(1, 1, 4),
        6 * 2,
    ),
    "residual around the input": (
        network(Residual(mlp(2, 3, 2)), nn.Linear(2, 1)),
        torch.randn(1, 2),
        6,
    ),
    "attention": (
        network(nn.Linear(2, 2), Attention(2, 2, 2, "split", fused=False), nn.Linear(2, 1)),
        torch.randn(1, 3, 2),
        2 * 2 * 2**2 * 2**2 * 2,
    ),
    "rotary attention": (Rotary(), torch.randn(1, 3, 2), 2 * 2 * 24**2),
    "sets": (
        network(TinyDeepSets(2, 3), nn.ReLU(), TinyDeepSets(3, 2)),
        torch.randn(1, 4, 2),
        6,
    ),
    "tied": (Tied(), torch.randn(1, 3), 24),
    "applied twice": (Shared(), torch.randn(1, 2), 6),
    "gated": (Gated(), torch.randn(1, 2), 6),
    "joined": (Joined(), torch.randn(1, 2), 6 * 2),
    "words": (Words(), torch.tensor([[0, 2, 1]]), 24),
    "group norm": (
        network(nn.Linear(2, 4), nn.GroupNorm(2, 4), nn.Tanh(), nn.Linear(4, 1)),
        torch.randn(3, 2),
        2 * 2**2,
    ),
}

# Graphs with more automorphisms than the tracer claims: network, input, claimed, all.
MORE: dict[str, tuple[nn.Module, Tensor, int, int]] = {
    # the tracer permutes within a parameter, and never exchanges two modules
    "equal branches": (Branches(), torch.randn(1, 2), 6, 12),
}
