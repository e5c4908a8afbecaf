"""The norm of edge states, in two parts: a factor for each edge, and a scale that weights can absorb."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from graph_metanetworks.nn.mlp import product

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
        return edges * inverse_rms(edges) * self.weight


def inverse_rms(edges: Tensor) -> Tensor:
    """What states are multiplied by, before the scale. [..., hidden] -> [..., 1]"""
    width = edges.shape[-1]
    # a product sums short rows in half the time of a reduction
    squares = product(edges * edges, edges.new_full((1, width), 1 / width))
    return squares.add_(EPS).rsqrt_()
