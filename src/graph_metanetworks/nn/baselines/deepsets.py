"""DeepSets on the set of a network's weights."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from graph_metanetworks.graph.batch import Batch, require_batch
from graph_metanetworks.nn.baselines.tensor_scale import Scaled
from graph_metanetworks.nn.mlp import Mlp


class DeepSets(Scaled):
    """An MLP on each weight, the mean over all weights, an MLP (Zaheer et al., 2017); any architecture.

    It sees which values there are, not where: it is invariant to many more permutations than keep a function.

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
