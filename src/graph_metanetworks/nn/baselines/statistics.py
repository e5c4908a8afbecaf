"""Statistics of each tensor or each kind of edge: mean, variance and five quantiles."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from graph_metanetworks.errors import UnsupportedNetwork
from graph_metanetworks.graph.batch import Batch, Stack, require_batch
from graph_metanetworks.nn.fitted import Fitted

QUANTILES = (0.0, 0.25, 0.5, 0.75, 1.0)
WIDTH = 2 + len(QUANTILES)


def summary_statistics(values: Tensor) -> Tensor:
    """Return mean, variance and quantiles of each network's values. [n, networks] -> [networks, 7]

    >>> summary_statistics(torch.arange(5.0)[:, None])
    tensor([[2., 2., 0., 1., 2., 3., 4.]])
    """
    ordered = _sorted(values)  # torch.quantile rejects large tensors
    positions = torch.tensor(QUANTILES, dtype=torch.float64) * (len(values) - 1)
    below = positions.floor().long()
    fraction = (positions - below).to(values)[:, None]
    above = (below + 1).clamp(max=len(values) - 1)
    quantiles = torch.lerp(ordered[below], ordered[above], fraction)
    return torch.cat([values.mean(0)[None], values.var(0, correction=0)[None], quantiles]).t()


def _sorted(values: Tensor) -> Tensor:  # [n, networks]
    if (
        values.requires_grad
        or values.device.type != "cpu"
        or values.dtype not in (torch.float32, torch.float64)
    ):
        return values.sort(dim=0).values
    # NumPy sorts with vector instructions, in a quarter of the time
    return torch.from_numpy(np.sort(values.t().numpy(), axis=1)).t()


def by_tensor(stack: Stack) -> dict[str, Tensor]:
    """Return the weights of each tensor, `[elements, networks]` by name."""
    return {name: weights[..., 0] for name, weights in stack.weights.items()}


def by_kind(stack: Stack) -> dict[str, Tensor]:
    """Return the weights of each kind of edge, `[elements, networks]` by kind."""
    parts: dict[str, list[Tensor]] = {}
    for number, block in enumerate(stack.graph.blocks):
        if block.parameter is not None and block.is_owner:
            values = stack.block_values(number)[..., 0]
            parts.setdefault(block.kind, []).append(values.reshape(len(values), -1).t())
    return {kind: torch.cat(part) for kind, part in parts.items()}


By = Literal["tensor", "kind", "both"]


class WeightStatistics(Fitted):
    """Statistics as features `[B, columns * 8]`: seven statistics per column, and whether it is present.

    Columns are tensors by name (`by="tensor"`), kinds of edges (`by="kind"`) or both, as `fit` found them.
    Statistics are standardized, and large values are squashed. Those of a column that a network lacks are 0.
    A network with an unknown column raises `UnsupportedNetwork`, unless `unknown="ignore"`. With `by="both"`
    tensors may have unknown names, as long as their kinds are known.
    """

    def __init__(self, by: By = "tensor", *, unknown: Literal["raise", "ignore"] = "raise") -> None:
        super().__init__()
        if by not in ("tensor", "kind", "both"):
            raise ValueError(f"by={by!r} is none of 'tensor', 'kind' and 'both'")
        self.by, self.on_unknown = by, unknown
        self.mean = nn.Buffer(torch.zeros(0, WIDTH))
        self.make_tables()

    @property
    def width(self) -> int:
        return len(self.fitted_names) * (WIDTH + 1)

    def make_tables(self) -> None:
        columns = len(self.fitted_names)
        self.mean = nn.Buffer(self.mean.new_zeros(columns, WIDTH))
        self.deviation = nn.Buffer(self.mean.new_ones(columns, WIDTH))

    def fit(self, batches: Iterable[Batch]) -> None:
        """Take the columns, and the mean and deviation of each statistic, from a training zoo."""
        found: dict[str, list[Tensor]] = {}
        for batch in batches:
            for stack in batch.stacks:
                for column, values in self.values(stack).items():
                    found.setdefault(column, []).append(summary_statistics(values).double())
        self.set_fitted_names(found)
        for row, rows in enumerate(map(torch.cat, found.values())):
            self.mean[row] = rows.mean(0)
            self.deviation[row] = rows.std(0, correction=0).clamp(min=1e-6)

    def values(self, stack: Stack) -> dict[str, Tensor]:
        """Return the weights of each column, `[elements, networks]`."""
        tensors = {f"tensor {name}": x for name, x in by_tensor(stack).items()} if self.by != "kind" else {}
        kinds = {f"kind {kind}": x for kind, x in by_kind(stack).items()} if self.by != "tensor" else {}
        return tensors | kinds

    def columns_of(self, stack: Stack) -> list[str]:
        """Return the columns that must be known for the networks of a stack: tensors, or kinds of edges."""
        if self.by == "tensor":
            return [f"tensor {name}" for name in stack.weights]
        owners = [block for block in stack.graph.blocks if block.parameter and block.is_owner]
        return list(dict.fromkeys(f"kind {block.kind}" for block in owners))

    def forward(self, batch: Batch) -> Tensor:  # [B, columns * 8]
        require_batch(batch)
        features = self.mean.new_zeros(len(batch), len(self.fitted_names), WIDTH + 1)
        rows = {column: row for row, column in enumerate(self.fitted_names)}
        for stack in batch.stacks:
            members = list(stack.members)
            self._check(stack, batch.names[members[0]])
            for column, values in self.values(stack).items():
                if column in rows:
                    row = rows[column]
                    scaled = (summary_statistics(values.to(self.mean)) - self.mean[row]) / self.deviation[row]
                    features[members, row, :WIDTH] = scaled.sign() * scaled.abs().log1p()
                    features[members, row, WIDTH] = 1.0
        return features.flatten(1)

    def _check(self, stack: Stack, network: str) -> None:
        unknown = [column for column in self.columns_of(stack) if column not in self.fitted_names]
        if unknown and self.on_unknown == "raise":
            raise UnsupportedNetwork(
                f"{network} has the {unknown[0]}, which no network of the training zoo has, so statistics by "
                f"{'tensor' if self.by == 'tensor' else 'kind'} cannot represent it. The method gmn takes "
                "any network."
            )
