"""Weights brought to a common scale, tensor by tensor."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from graph_metanetworks.graph.batch import Batch, Stack
from graph_metanetworks.nn.encoders import moments_of
from graph_metanetworks.nn.fitted import Fitted

OTHERS = 0  # the row of tensors that the training zoo had not


class TensorScale(Fitted):
    """`(w - mean) / deviation` for each tensor by name, as in a training zoo; others as all weights there."""

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
        for row, (count, sums, squares) in enumerate((total, *moments.values()), OTHERS):
            mean = sums / count
            self.mean[row] = mean
            self.deviation[row] = (squares / count - mean.square()).clamp(min=1e-12).sqrt()

    def forward(self, stack: Stack) -> Tensor:
        """All weights of each network in the order of its state dict. [elements, networks]"""
        rows = {name: row for row, name in enumerate(self.fitted_names, OTHERS + 1)}
        parts = []
        for name, weights in stack.weights.items():
            row = rows.get(name, OTHERS)
            parts.append((weights[..., 0].to(self.mean) - self.mean[row]) / self.deviation[row])
        return torch.cat(parts)


class Scaled(nn.Module):
    """The base of models on weights that `fit` brings to a common scale."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = TensorScale()

    def fit(self, batches: Iterable[Batch]) -> None:
        """Take the scale of each tensor from a training zoo."""
        self.scale.fit(batches)

    def features(self, stack: Stack) -> Tensor:
        """Of all weights of each network. [elements, networks, 2]"""
        return _features(self.scale(stack))


def _features(scaled: Tensor) -> Tensor:
    """A scaled weight twice: as a logarithm, for some are huge; and squashed, fine near 0. [..., 2]"""
    return torch.stack([scaled.sign() * scaled.abs().log1p(), scaled / (0.1 + scaled.abs())], dim=-1)
