"""The MLP that all blocks and readouts use."""

from __future__ import annotations

from torch import Tensor, nn


class Mlp(nn.Module):
    """Two linear layers with a ReLU between them."""

    def __init__(self, inputs: int, inner: int, outputs: int, *, bias: bool = True) -> None:
        super().__init__()
        self.first = nn.Linear(inputs, inner)
        self.second = nn.Linear(inner, outputs, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x).relu())
