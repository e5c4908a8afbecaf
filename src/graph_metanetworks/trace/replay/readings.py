"""Read the activations of nodes from the tensors of a run.

A reading says that a tensor shows some nodes: which of its dimensions tell them apart, and which node stands
at each index along these. All other dimensions are positions: batch, time, height, width.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

SMALLEST_VARIANCE = 1e-12  # below it the deviation is zero, and so is its gradient
LARGEST = 1e9  # numbers beyond are masks of attention scores


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """Where to find the activations of some nodes.

    `step` is the recorded operation after which the tensor `key` shows them, -1 for an input. `rows` are the
    indices along `dims` (flattened) that show a node, and `nodes` the nodes that they show; a node may occur
    several times, in the flattened places of a feature map, say.
    """

    step: int
    key: int
    dims: tuple[int, ...]
    nodes: Tensor | range
    rows: Tensor | None = None  # None: all of them
    masked: bool = False  # entries may be infinite, or numbers that stand for infinity


class Readings:
    """All readings of a recording, in the order in which a run meets them."""

    def __init__(self, readings: Sequence[Reading], num_nodes: int):
        self._plans = [_Plan(reading) for reading in sorted(readings, key=lambda reading: reading.step)]
        self.steps = {plan.reading.step for plan in self._plans}
        self.given = {plan.reading.key for plan in self._plans if plan.reading.step < 0}
        found = torch.cat([plan.nodes for plan in self._plans]) if self._plans else torch.empty(0).long()
        # nodes that no tensor shows read the zero behind the last one
        self._places = torch.full((num_nodes,), found.numel(), dtype=torch.int64, device="cpu")
        self._places[found] = torch.arange(found.numel(), device="cpu")
        self.known = self._places < found.numel()  # [N]

    def at(self, step: int) -> list[_Plan]:
        return [plan for plan in self._plans if plan.reading.step == step]

    def of_nodes(self, statistics: Tensor) -> Tensor:
        """Turn the statistics of a run into mean and deviation of every node, zeros where nothing is known.

        `[..., 2, n] -> [..., N, 2]`. It is apart from the run because it is slow under vmap.
        """
        mean, variance = statistics.unbind(-2)
        varies = variance > SMALLEST_VARIANCE
        # the square root of zero has no gradient
        deviation = torch.where(varies, torch.where(varies, variance, 1).sqrt(), 0)
        found = torch.stack([mean, deviation], dim=-1)  # [..., n, 2]
        found = torch.nn.functional.pad(found.nan_to_num(0, 0, 0), (0, 0, 0, 1))
        return found[..., self._places.to(found.device), :]


class Statistics:
    """What has been read during one run."""

    def __init__(self) -> None:
        self._means: list[Tensor] = []
        self._variances: list[Tensor] = []

    def read(self, plans: Sequence[_Plan], tensors: Mapping[int, Tensor]) -> None:
        for plan in plans:
            mean, variance = plan.statistics(tensors[plan.reading.key])
            self._means.append(mean)
            self._variances.append(variance)

    def result(self) -> Tensor:
        """Return mean and variance, in the order of readings. [2, n]"""
        if not self._means:
            return torch.zeros(2, 0)
        return torch.stack([torch.cat(self._means), torch.cat(self._variances)])


class _Plan:
    """How one reading is taken."""

    def __init__(self, reading: Reading):
        self.reading = reading
        shown = reading.nodes
        shown = torch.tensor(shown, device="cpu") if isinstance(shown, range) else shown
        self.nodes, self._places, self._counts = shown.unique(return_inverse=True, return_counts=True)
        self._is_plain = reading.rows is None and torch.equal(self.nodes, shown)

    def statistics(self, tensor: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and variance of each node over everything that shows it. [n], [n]"""
        if self.reading.masked:
            tensor = torch.where(tensor.abs() < LARGEST, tensor, 0)
        dims = self.reading.dims
        positions = [d for d in range(tensor.dim()) if d not in dims]
        if not self._is_plain:
            return self._pooled(tensor.permute(*dims, *positions))
        if all(tensor.shape[d] == 1 for d in positions):
            mean = tensor.reshape(-1)
            return mean, torch.zeros_like(mean)
        # not `var`, whose kernel is ten times slower
        mean = tensor.mean(positions, keepdim=True)
        variance = (tensor - mean).square().mean(positions)
        return mean.reshape(-1), variance.reshape(-1)

    def _pooled(self, tensor: Tensor) -> tuple[Tensor, Tensor]:
        """Pool nodes that occur several times, or in another order."""
        shape = tensor.shape[: len(self.reading.dims)]
        rows = tensor.reshape(shape.numel(), -1)  # [rows, positions]
        if self.reading.rows is not None:
            rows = rows[self.reading.rows.to(rows.device)]
        places = self._places.to(rows.device)
        count = (self._counts * rows.shape[1]).to(rows)

        def pool(values: Tensor) -> Tensor:
            start = torch.zeros(len(self.nodes), dtype=values.dtype, device=values.device)
            return torch.index_add(start, 0, places, values.sum(1)) / count

        mean = pool(rows)
        return mean, pool((rows - mean[places, None]).square())
