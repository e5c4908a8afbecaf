"""Layers that PyTorch lacks. Families build networks with them, and populations know how to stack them."""

from __future__ import annotations

from torch import Tensor, nn


class Equivariant(nn.Module):
    """A linear layer that commutes with permutations of the points: `X W1 + mean(X) W2 + b`."""

    stackable = True

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.each = nn.Linear(inputs, outputs)
        self.pooled = nn.Linear(inputs, outputs, bias=False)

    def forward(self, x: Tensor) -> Tensor:  # [..., points, inputs] -> [..., points, outputs]
        return self.each(x) + self.pooled(x.mean(-2, keepdim=True))


class Subsampling(nn.Module):
    """Keep every `stride`-th pixel along both axes."""

    def __init__(self, stride: int) -> None:
        super().__init__()
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        return x[..., :: self.stride, :: self.stride]
