"""A DeepSets model on the set of a network's weights."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from graph_metanetworks.graph.batch import Batch, require_batch
from graph_metanetworks.nn.baselines.tensor_scale import ScaledWeights
from graph_metanetworks.nn.embedding import input_of
from graph_metanetworks.nn.mlp import Mlp


class WeightSet(ScaledWeights):
    """DeepSets on weights: an MLP on each weight, the mean over all, an MLP (Zaheer et al., 2017).

    It takes any architecture. It sees the values of weights but not their positions, so it is invariant to
    many permutations that change the function.

    Args:
        inner: width of the MLP on weights.
        hidden: width after the mean.
    """

    def __init__(self, inner: int = 128, hidden: int = 640, out: int = 1) -> None:
        super().__init__()
        self.each = Mlp(2, inner, inner)
        self.mixed = nn.Sequential(nn.Linear(inner, hidden), nn.ReLU())
        self.head = Mlp(hidden, hidden, out)

    def forward(self, batch: Batch) -> Tensor:  # [B, out]
        require_batch(batch)
        pooled: dict[int, Tensor] = {}
        for stack in batch.stacks:
            means = self.each(self.features(stack)).mean(0)
            pooled |= dict(zip(stack.members, means, strict=True))
        return self.head(self.mixed(torch.stack([pooled[member] for member in range(len(batch))])))

    def embed(self, batch: Batch) -> Tensor:
        """Return the representation of each network before the last layer. [B, hidden]"""
        return input_of(self.head.second, self, batch)
