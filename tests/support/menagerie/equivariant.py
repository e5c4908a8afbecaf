"""Layers equivariant to a group, both declared in axis notation and traced op by op."""

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import graph_metanetworks as gmn

from .architecture import architecture
from .inputs import inputs, normal

equivariant = partial(architecture, family="equivariant")


class EquivariantLinear(nn.Module):
    """y = sum_d basis[d] x W_d: the linear maps spanned by a basis of commuting matrices."""

    basis: Tensor

    def __init__(self, basis: Tensor, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.register_buffer("basis", basis, persistent=False)  # [D, n, n]
        self.weight = nn.Parameter(torch.randn(len(basis), out_channels, in_channels))
        self.bias = nn.Parameter(torch.randn(out_channels))

    def forward(self, x: Tensor) -> Tensor:  # [B, n, in] -> [B, n, out]
        return torch.einsum("dgh,doi,bhi->bgo", self.basis, self.weight, x) + self.bias


class DeclaredEquivariantLinear(EquivariantLinear):
    """The same layer, declared below instead of traced."""


gmn.declare(
    DeclaredEquivariantLinear,
    inputs=["B G i"],
    parameters={"weight": "D o i", "bias": "o"},
    outputs=["B G o"],
)


def cyclic_basis(size: int) -> Tensor:
    """Return the cyclic shifts [size, size, size], a basis of the circulant matrices."""
    return torch.stack([torch.eye(size).roll(shift, dims=0) for shift in range(size)])


def symmetric_basis(size: int) -> Tensor:
    """Return the identity and the mean [2, size, size], which commute with all permutations."""
    return torch.stack([torch.eye(size), torch.full((size, size), 1 / size)])


class EquivariantNetwork(nn.Module):
    """Three equivariant layers with a nonlinearity between, then an invariant mean."""

    def __init__(self, linear: type[EquivariantLinear], basis: Tensor) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            linear(basis, inner, outer) for inner, outer in [(3, 10), (10, 8), (8, 2)]
        )

    def forward(self, x: Tensor) -> Tensor:  # [B, n, 3] -> [B, 2]
        first, second, last = self.layers
        return last(F.gelu(second(torch.tanh(first(x))))).mean(dim=1)


for group, basis in {"c4": cyclic_basis(4), "s6": symmetric_basis(6)}.items():
    example = inputs(normal(5, basis.shape[-1], 3))
    equivariant(f"equivariant-{group}", example=example)(
        partial(EquivariantNetwork, EquivariantLinear, basis)
    )
    equivariant(f"equivariant-{group}-declared", example=example)(
        partial(EquivariantNetwork, DeclaredEquivariantLinear, basis)
    )


class DeepSetsLayer(nn.Module):
    """x W1 + mean(x) W2, https://arxiv.org/abs/1703.06114."""

    def __init__(self, inner: int, outer: int) -> None:
        super().__init__()
        self.own = nn.Parameter(torch.randn(inner, outer))
        self.shared = nn.Parameter(torch.randn(inner, outer))

    def forward(self, x: Tensor) -> Tensor:  # [B, n, inner] -> [B, n, outer]
        return x @ self.own + x.mean(dim=1, keepdim=True) @ self.shared


@equivariant("deep-sets", example=inputs(normal(4, 6, 3)))
def deep_sets() -> nn.Module:
    """Return three DeepSets layers, the last one read at every element."""
    return nn.Sequential(
        DeepSetsLayer(3, 11), nn.ReLU(), DeepSetsLayer(11, 7), nn.ReLU(), DeepSetsLayer(7, 2)
    )


class RotatedConvolution(nn.Module):
    """A convolution from p4 feature maps to p4 feature maps, https://arxiv.org/abs/1602.07576."""

    def __init__(self, inner: int, outer: int, *, rotations: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outer, inner, rotations, 3, 3))
        self.bias = nn.Parameter(torch.randn(outer))

    def forward(self, x: Tensor) -> Tensor:  # [B, inner, rotations, H, W] -> [B, outer, 4, H, W]
        rotated = [self.weight.roll(turn, dims=2).rot90(turn, dims=(-2, -1)) for turn in range(4)]
        kernel = torch.stack(rotated, dim=1).flatten(2, 3).flatten(0, 1)
        x = F.conv2d(x.flatten(1, 2), kernel, self.bias.repeat_interleave(4), padding=1)
        return x.unflatten(1, (-1, 4))


@equivariant("p4-convolution", example=inputs(normal(2, 3, 1, 6, 6)))
class RotationInvariantClassifier(nn.Module):
    """A lifting and a group convolution, pooled over rotations and positions."""

    def __init__(self) -> None:
        super().__init__()
        self.lift = RotatedConvolution(3, 6, rotations=1)
        self.convolve = RotatedConvolution(6, 5, rotations=4)
        self.head = nn.Linear(5, 2)

    def forward(self, image: Tensor) -> Tensor:  # [B, 3, 1, H, W] -> [B, 2]
        x = F.relu(self.convolve(F.relu(self.lift(image))))
        return self.head(x.mean(dim=(2, 3, 4)))
