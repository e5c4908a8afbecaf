"""Linear layers on states: the MLP that all blocks and readouts use, and the product on many edges."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn


class Mlp(nn.Module):
    """Two linear layers with a ReLU between them."""

    def __init__(self, inputs: int, inner: int, outputs: int, *, bias: bool = True) -> None:
        super().__init__()
        self.first = nn.Linear(inputs, inner)
        self.second = nn.Linear(inner, outputs, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x).relu())


def product(edges: Tensor, weight: Tensor) -> Tensor:
    """A linear layer on states of any shape as one flat product; torch may choose a batched one: slower."""
    return F.linear(edges.flatten(0, -2), weight).view(*edges.shape[:-1], -1)
