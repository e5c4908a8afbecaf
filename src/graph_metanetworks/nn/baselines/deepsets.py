"""DeepSets on the set of a network's weights."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from graph_metanetworks.batch import Batch
from graph_metanetworks.nn.baselines.tensor_scale import TensorScale, value_features
from graph_metanetworks.nn.mlp import Mlp


class DeepSets(nn.Module):
    """An MLP on each weight, the mean over all weights, an MLP (Zaheer et al., 2017); any architecture.

    It sees which values there are, not where: it is invariant to many more permutations than keep a function.

    Args:
        inner: width of the MLP on weights.
        hidden: width after the mean.
    """

    def __init__(self, inner: int = 128, hidden: int = 640, out: int = 1) -> None:
        super().__init__()
        self.scale = TensorScale()
        self.each = Mlp(2, inner, inner)
        self.mixed = nn.Sequential(nn.Linear(inner, hidden), nn.ReLU())
        self.head = Mlp(hidden, hidden, out)

    @property
    def scales(self) -> tuple[str, ...]:
        return self.scale.tensors

    def make_tables(self, tensors: Iterable[str]) -> None:
        self.scale.make_tables(tensors)

    def fit(self, batches: Iterable[Batch]) -> None:
        """Take the scale of each tensor from a training zoo."""
        self.scale.fit(batches)

    def forward(self, batch: Batch) -> Tensor:  # [B, out]
        pooled: dict[int, Tensor] = {}
        for stack in batch.stacks:
            means = self.each(value_features(self.scale(stack))).mean(0)
            pooled |= dict(zip(stack.members, means, strict=True))
        return self.head(self.mixed(torch.stack([pooled[member] for member in range(len(batch))])))
