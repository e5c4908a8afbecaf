"""The norm of edge states, in two parts: a factor for each edge, and a scale that weights can absorb."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from graph_metanetworks.nn.engine.scratch import room

EPS = 1e-6


class RmsNorm(nn.Module):
    """States divided by their root mean square, times a learned scale.

    On the CPU it is several times as fast as a LayerNorm for so few numbers. Unlike `nn.RMSNorm` it takes
    states in half precision with a scale in float32, as autocast makes them.
    """

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden))

    def forward(self, edges: Tensor) -> Tensor:
        return normed(edges) * self.weight


def normed(edges: Tensor) -> Tensor:
    """States divided by their root mean square: the norm before its scale. [..., hidden]"""
    width = edges.shape[-1]
    place = room("normed", edges, width)
    squares = torch.mul(edges, edges, out=place)
    factor = room("factor", edges, 1)
    # a product sums short rows in a third of the time of a reduction
    mean = torch.mv(
        squares.flatten(0, -2),
        edges.new_full((width,), 1 / width),
        out=None if factor is None else factor.flatten(),
    )
    return torch.mul(edges, mean.add_(EPS).rsqrt_().view(*edges.shape[:-1], 1), out=place)
