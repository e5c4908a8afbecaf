"""Recognise networks that are still at their initialisation.

Fresh networks cost nothing: the recipe of a zoo builds them. In a fresh network each tensor has the size that
its initialisation gives it, up to a sampling error that is known, since it falls with the square root of the
number of weights. Training moves tensors by many times that error, long before the accuracy leaves chance.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import torch
from torch import Tensor, nn

from graph_metanetworks.graph.batch import Batch, Stack, collate
from graph_metanetworks.nn.fitted import Fitted
from graph_metanetworks.tasks.traced_zoo import TracedZoo

MOST = 256  # fresh networks to learn from
SEED = 1_000_003
FEATURES = 2
TINY = 1e-6  # sizes below it look alike
SMALLEST = 1e-2  # deviation of tensors that are initialised to a constant
RARE = 0.01  # share of the fresh and of the trained networks that may lie beyond the other ones' side


class Untrained(Fitted):
    """Measure how far the tensors of a network are from fresh ones, in standard errors, by kind of edge."""

    def __init__(self) -> None:
        super().__init__()
        self.center = nn.Buffer(torch.zeros(0, FEATURES))
        self.deviation = nn.Buffer(torch.ones(0, FEATURES))
        self.threshold = nn.Buffer(torch.tensor(-torch.inf))  # networks below it look untrained

    def make_tables(self) -> None:
        self.center = nn.Buffer(self.center.new_zeros(len(self.fitted_names), FEATURES))
        self.deviation = nn.Buffer(self.center.new_ones(len(self.fitted_names), FEATURES))

    @torch.no_grad()
    def fit(self, fresh: Iterable[Batch], trained: Iterable[Batch]) -> None:
        """Learn from fresh networks, and put the threshold halfway between them and trained ones.

        If both overlap (the recipe builds networks that are trained, say), no network looks untrained.
        """
        found: dict[str, list[Tensor]] = {}
        for batch in fresh:
            for stack in batch.stacks:
                for kind, rows in tensor_features(stack).items():
                    found.setdefault(kind, []).append(rows.flatten(0, 1))
        self.set_fitted_names(found)
        for row, rows in enumerate(map(torch.cat, found.values())):
            self.center[row] = rows[:, 1:].median(0).values
            errors = (rows[:, 1:] - self.center[row]).square() * rows[:, :1]
            self.deviation[row] = errors.mean(0).sqrt().clamp(min=SMALLEST)
        below = torch.cat([self(batch) for batch in fresh]).quantile(1 - RARE)
        above = torch.cat([self(batch) for batch in trained]).quantile(RARE)
        self.threshold.fill_(float(below + above) / 2 if below < above else -torch.inf)

    @torch.no_grad()
    def forward(self, batch: Batch) -> Tensor:  # [B]
        """Return the logarithm of the mean squared distance of tensors; about 0 for fresh networks."""
        result = self.center.new_full((len(batch),), torch.inf)
        rows = {kind: row for row, kind in enumerate(self.fitted_names)}
        for stack in batch.stacks:
            parts = []
            for kind, features in tensor_features(stack).items():
                if kind in rows:
                    gap = (features[..., 1:] - self.center[rows[kind]]) / self.deviation[rows[kind]]
                    parts.append((gap.square() * features[..., :1]).flatten(1))
            if parts:
                result[list(stack.members)] = torch.cat(parts, 1).mean(1).log().to(result)
        return result.float().to(result)  # rounded: the same for permuted networks

    def judge(self, batch: Batch) -> list[bool]:
        """Return which networks look untrained."""
        return (self(batch) < self.threshold).tolist()


def fresh_networks(networks: TracedZoo, positions: np.ndarray, size: int) -> list[Batch]:
    """Build fresh networks of the architectures at these positions, or of some of them, in batches."""
    chosen = positions[:: max(1, len(positions) // MOST)].tolist()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        built = [
            (networks.graph(position), networks.zoo.recipe.build(networks.zoo[position].config).state_dict())
            for position in chosen
        ]
    return [collate(built[start : start + size]) for start in range(0, len(built), size)]


def tensor_features(stack: Stack) -> Mapping[str, Tensor]:
    """Return count, log root mean square and log peak of tensors, `[networks, tensors, 3]` by kind of edge.

    Weights are multiplied by the root of their fan-in, as initialisations divide by it.
    """
    found: dict[str, list[Tensor]] = {}
    for number, block in enumerate(stack.graph.blocks):
        if block.parameter is None or not block.is_owner:
            continue
        values = stack.block_values(number)[..., 0].double().flatten(1)
        fan_in = values.shape[1] / block.target.unique().numel()
        size = values.square().mean(1).sqrt()
        peak = (values.abs().amax(1) + TINY) / (size + TINY)
        count = torch.full_like(size, values.shape[1])
        features = torch.stack([count, (size * fan_in**0.5 + TINY).log(), peak.log()], 1)
        found.setdefault(block.kind, []).append(features)
    return {kind: torch.stack(parts, 1) for kind, parts in found.items()}
