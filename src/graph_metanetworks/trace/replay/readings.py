"""Read the activations of nodes from the tensors of a run.

A reading says that a tensor shows some nodes: which of its dimensions tell them apart, and which node stands at
each index along these. All other dimensions are positions: batch, time, height, width.
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
    nodes: Tensor
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

    def begin(self, tensors: Mapping[int, Tensor]) -> _Read:
        read = _Read(self._places)
        read.read(self.at(-1), tensors)
        return read


class _Read:
    """What has been read during one run."""

    def __init__(self, places: Tensor):
        self._places = places
        self._means: list[Tensor] = []
        self._variances: list[Tensor] = []

    def read(self, plans: Sequence[_Plan], tensors: Mapping[int, Tensor]) -> None:
        for plan in plans:
            mean, variance = plan.statistics(tensors[plan.reading.key])
            self._means.append(mean)
            self._variances.append(variance)

    def result(self) -> Tensor:
        """Return mean and deviation of every node, zeros where nothing is known. [N, 2]"""
        if not self._means:
            return torch.zeros(len(self._places), 2)
        variance = torch.cat(self._variances)
        varies = variance > SMALLEST_VARIANCE
        # the square root of zero has no gradient
        deviation = torch.where(varies, torch.where(varies, variance, 1).sqrt(), 0)
        found = torch.stack([torch.cat(self._means), deviation], dim=-1)  # [n, 2]
        found = torch.where(found.isfinite(), found, 0)
        nothing = torch.zeros(1, 2, dtype=found.dtype, device=found.device)
        return torch.cat([found, nothing])[self._places.to(found.device)]


class _Plan:
    """How one reading is taken."""

    def __init__(self, reading: Reading):
        self.reading = reading
        self.nodes, self._places, counts = reading.nodes.unique(return_inverse=True, return_counts=True)
        self._counts = counts
        self._one_to_one = bool((counts == 1).all())
        self._in_order = self._one_to_one and bool((self._places.diff() > 0).all())

    def statistics(self, tensor: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and variance of each node over everything that shows it. [n], [n]"""
        rows = self._rows(tensor)  # [rows, positions]
        if self._in_order:
            return rows.mean(1), rows.var(1, correction=0)
        places = self._places.to(rows.device)
        if self._one_to_one:
            order = places.argsort()
            return rows.mean(1)[order], rows.var(1, correction=0)[order]
        return self._pooled(rows, places)

    def _rows(self, tensor: Tensor) -> Tensor:
        dims = self.reading.dims
        others = [d for d in range(tensor.dim()) if d not in dims]
        count = 1
        for dim in dims:
            count *= tensor.shape[dim]
        rows = tensor.permute(*dims, *others).reshape(count, -1)
        if self.reading.rows is not None:
            rows = rows[self.reading.rows.to(rows.device)]
        if self.reading.masked:
            rows = torch.where(rows.abs() < LARGEST, rows, 0)
        return rows

    def _pooled(self, rows: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
        """Pool the rows of nodes that occur several times."""
        count = (self._counts * rows.shape[1]).to(rows)

        def pool(values: Tensor) -> Tensor:
            start = torch.zeros(len(self.nodes), dtype=values.dtype, device=values.device)
            return torch.index_add(start, 0, places, values.sum(1)) / count

        mean = pool(rows)
        return mean, pool((rows - mean[places, None]).square())
