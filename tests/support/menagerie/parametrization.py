"""Weights computed from other parameters before they are used."""

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrizations, parametrize

from .architecture import architecture
from .inputs import inputs, normal

parametrization = partial(architecture, family="parametrization", example=inputs(normal(15, 5)))


@parametrization("weight-norm")
def weight_normed() -> nn.Module:
    """Return a perceptron with the length and the direction of each weight row apart."""
    return nn.Sequential(
        parametrizations.weight_norm(nn.Linear(5, 11)),
        nn.Tanh(),
        parametrizations.weight_norm(nn.Linear(11, 8)),
        nn.Tanh(),
        parametrizations.weight_norm(nn.Linear(8, 3)),
    )


@parametrization("weight-norm-convolution", example=inputs(normal(2, 3, 9)))
def weight_normed_convolution() -> nn.Module:
    """Return convolutions whose weights are normalised along different axes."""
    return nn.Sequential(
        parametrizations.weight_norm(nn.Conv1d(3, 8, 3, padding=1)),
        nn.Tanh(),
        parametrizations.weight_norm(nn.Conv1d(8, 7, 3, padding=1), dim=1),
        nn.Tanh(),
        parametrizations.weight_norm(nn.Conv1d(7, 4, 2), dim=2),
    )


@parametrization("spectral-norm")
def spectral_normed() -> nn.Module:
    """Return a perceptron with weights divided by their largest singular value."""
    return nn.Sequential(
        parametrizations.spectral_norm(nn.Linear(5, 11)),
        nn.ReLU(),
        parametrizations.spectral_norm(nn.Linear(11, 8)),
        nn.ReLU(),
        parametrizations.spectral_norm(nn.Linear(8, 3)),
    )


class LowRankUpdate(nn.Module):
    """W + B A, https://arxiv.org/abs/2106.09685."""

    def __init__(self, outer: int, inner: int, rank: int) -> None:
        super().__init__()
        self.down = nn.Parameter(torch.randn(rank, inner))
        self.up = nn.Parameter(torch.zeros(outer, rank))

    def forward(self, weight: Tensor) -> Tensor:  # [outer, inner] -> [outer, inner]
        return weight + self.up @ self.down


def adapted(inner: int, outer: int) -> nn.Linear:
    """Return a linear layer with a low-rank update merged into its weight."""
    linear = nn.Linear(inner, outer)
    parametrize.register_parametrization(linear, "weight", LowRankUpdate(outer, inner, rank=2))
    return linear


@parametrization("lora-merged")
def lora() -> nn.Module:
    """Return a perceptron with a low-rank update in every layer."""
    return nn.Sequential(adapted(5, 11), nn.GELU(), adapted(11, 8), nn.GELU(), adapted(8, 3))


@parametrization("lora-unmerged")
class AdapterBeside(nn.Module):
    """Low-rank updates applied beside the weights they adapt."""

    def __init__(self, rank: int = 2) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(5, 11), nn.Linear(11, 3)])
        self.downs = nn.ModuleList(nn.Linear(width, rank, bias=False) for width in (5, 11))
        self.ups = nn.ModuleList(nn.Linear(rank, width, bias=False) for width in (11, 3))

    def forward(self, x: Tensor) -> Tensor:  # [B, 5] -> [B, 3]
        first, second = (
            lambda x, layer=layer, down=down, up=up: layer(x) + 0.5 * up(down(x))
            for layer, down, up in zip(self.layers, self.downs, self.ups, strict=True)
        )
        return second(F.silu(first(x)))


@parametrization("weight-standardised-convolution", example=inputs(normal(2, 3, 8, 6)))
class StandardisedConvolution(nn.Module):
    """Kernels shifted and scaled to mean 0 and variance 1 in the forward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 10, 3)
        self.norm = nn.GroupNorm(2, 10)
        self.second = nn.Conv2d(10, 4, 3)

    def convolve(self, x: Tensor, layer: nn.Conv2d) -> Tensor:
        variance, mean = torch.var_mean(layer.weight, dim=(1, 2, 3), keepdim=True)
        return F.conv2d(x, (layer.weight - mean) / torch.sqrt(variance + 1e-5), layer.bias)

    def forward(self, image: Tensor) -> Tensor:  # [B, 3, H, W] -> [B, 4, H - 4, W - 4]
        return self.convolve(F.relu(self.norm(self.convolve(image, self.first))), self.second)


@parametrization("masked-weight")
class MaskedWeight(nn.Module):
    """Weights pruned by a fixed mask, and a positive weight by softplus."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(5, 9)
        self.outer = nn.Linear(9, 3)
        self.register_buffer("mask", (torch.rand(9, 5) > 0.3).float())

    def forward(self, x: Tensor) -> Tensor:  # [B, 5] -> [B, 3]
        hidden = F.linear(x, self.inner.weight * self.mask, self.inner.bias).tanh()
        return F.linear(hidden, F.softplus(self.outer.weight), self.outer.bias)
