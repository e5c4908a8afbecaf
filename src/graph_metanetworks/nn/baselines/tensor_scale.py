"""Standardization of weights, tensor by tensor."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from graph_metanetworks.graph.batch import Batch, Stack
from graph_metanetworks.nn.encoders import moments_of
from graph_metanetworks.nn.fitted import Fitted

UNKNOWN = 0  # the row of tensors that were not in the training zoo
WIDTH = 2  # features of each weight


class TensorScale(Fitted):
    """`(w - mean) / deviation` by tensor, as in a training zoo; for unknown tensors, those of all weights."""

    def __init__(self) -> None:
        super().__init__()
        self.mean = nn.Buffer(torch.zeros(1))
        self.make_tables()

    def make_tables(self) -> None:
        rows = 1 + len(self.fitted_names)
        self.mean = nn.Buffer(self.mean.new_zeros(rows))
        self.deviation = nn.Buffer(self.mean.new_ones(rows))

    def fit(self, batches: Iterable[Batch]) -> None:
        moments: dict[str | None, Tensor] = {}
        for batch in batches:
            for stack in batch.stacks:
                for name, weights in stack.weights.items():
                    found = moments_of(weights)[:, 0]
                    for key in (name, None):
                        moments[key] = moments.get(key, 0) + found
        total = moments.pop(None)
        self.set_fitted_names(str(name) for name in moments)
        for row, (count, sums, squares) in enumerate((total, *moments.values()), UNKNOWN):
            mean = sums / count
            self.mean[row] = mean
            self.deviation[row] = (squares / count - mean.square()).clamp(min=1e-12).sqrt()

    def forward(self, stack: Stack) -> Tensor:
        """Return all weights of each network in the order of its state dict. [elements, networks]"""
        rows = {name: row for row, name in enumerate(self.fitted_names, UNKNOWN + 1)}
        parts = []
        for name, weights in stack.weights.items():
            row = rows.get(name, UNKNOWN)
            parts.append((weights[..., 0].to(self.mean) - self.mean[row]) / self.deviation[row])
        return torch.cat(parts)


class ScaledWeights(nn.Module):
    """Base of models on the standardized weights of a network."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = TensorScale()

    def fit(self, batches: Iterable[Batch]) -> None:
        """Take the scale of each tensor from a training zoo."""
        self.scale.fit(batches)

    def features(self, stack: Stack) -> Tensor:
        """Return two features of each weight. [elements, networks, 2]"""
        return features_of(self.scale(stack))


def features_of(scaled: Tensor) -> Tensor:
    """Return a signed logarithm, for huge weights, and a squashed copy, for small ones. [..., 2]"""
    return torch.stack([scaled.sign() * scaled.abs().log1p(), scaled / (0.1 + scaled.abs())], dim=-1)
