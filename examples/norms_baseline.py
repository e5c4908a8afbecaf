"""A baseline of your own, in one file: an MLP on the norms of a network's weights.

gmn train accuracy zoos/diverse --method examples/norms_baseline.py:NORMS --out runs/norms
gmn experiment accuracy --zoo zoos/diverse --methods gmn,examples/norms_baseline.py:NORMS
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from graph_metanetworks import Batch
from graph_metanetworks.methods import Method, Output


class Norms(nn.Module):
    """Three numbers per network, whatever its architecture: log L1, L2 and maximum norm of its weights."""

    def __init__(self, hidden: int, out: int) -> None:
        super().__init__()
        self.mean, self.deviation = nn.Buffer(torch.zeros(3)), nn.Buffer(torch.ones(3))
        self.mlp = nn.Sequential(nn.Linear(3, hidden), nn.ReLU(), nn.Linear(hidden, out))

    def fit(self, batches: Iterable[Batch]) -> None:
        """Take mean and deviation of the features from the training networks."""
        features = torch.cat([self.features(batch) for batch in batches])
        self.mean, self.deviation = nn.Buffer(features.mean(0)), nn.Buffer(features.std(0).clamp(min=1e-6))

    def features(self, batch: Batch) -> Tensor:  # [B, 3]
        rows: dict[int, Tensor] = {}
        for stack in batch.stacks:  # networks of one architecture, their weights stacked
            weights = torch.cat([tensor[..., 0] for tensor in stack.weights.values()])  # [weights, networks]
            sizes = weights.abs().to(self.mean)
            norms = torch.stack([sizes.mean(0), sizes.square().mean(0).sqrt(), sizes.amax(0)], dim=1)
            rows |= dict(zip(stack.members, norms.log(), strict=True))
        return torch.stack([rows[member] for member in range(len(batch))])

    def forward(self, batch: Batch) -> Tensor:  # [B, out]
        return self.mlp((self.features(batch) - self.mean) / self.deviation)


def small(output: Output) -> Norms:
    return Norms(32, output.width)


NORMS = Method(
    name="norms",
    title="Norms",
    about="an MLP on three norms of the weights; any architecture; blind to where a weight is",
    sizes={"small": small, "paper": lambda output: Norms(512, output.width)},
    learning_rate=1e-2,
)
