"""What restricts the sizes of factors: parts of a tensor that need equal sizes, and operations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from graph_metanetworks.errors import PruneError
from graph_metanetworks.graph.parameter_graph import ParameterGraph
from graph_metanetworks.prune.program import recording_of
from graph_metanetworks.prune.resize import resized
from graph_metanetworks.symmetry.axes import Axis, Cases, Dim, leaves, parts_of, variables
from graph_metanetworks.symmetry.subsets import Ragged, Subset


class Limits:
    """Axes that must keep their size, with the reason, and sets of axes that must have equal sizes."""

    def __init__(self, graph: ParameterGraph):
        self.frozen: dict[Axis, str] = {}
        self._group: dict[Axis, list[Axis]] = {axis: [axis] for axis in graph.symmetry.variables}
        recording = recording_of(graph)
        seen: set[Axis] = set()
        for dims in (*graph.symmetry.parameters.values(), *_all_dims(recording.axes)):
            for dim in dims:
                for axis in leaves(dim):
                    self._follow(axis, seen)

    def tied(self, axis: Axis) -> list[Axis]:
        """Return the axes that must have the size of a given one, including it."""
        return self._group.get(axis, [axis])

    def freeze(self, axis: Axis, reason: str) -> None:
        for other in self.tied(axis):
            self.frozen.setdefault(other, reason)

    def _follow(self, axis: Axis, seen: set[Axis]) -> None:
        if axis in seen or axis.pinned or axis.form is None:
            return
        seen.add(axis)
        parts = [part for _, part in parts_of(axis)]
        if isinstance(axis.form, Cases):
            self._tie([leaves(part) for part in parts])
        for part in parts:
            for inner in leaves(part):
                self._follow(inner, seen)

    def _tie(self, parts: Sequence[Dim]) -> None:
        """Tie the parts of a tensor, which need equal sizes."""
        sizes = {tuple(axis.size for axis in part) for part in parts}
        for place, axes in enumerate(zip(*parts, strict=False)):
            if all(axis is axes[0] for axis in axes) and len(sizes) == 1:
                continue
            if len(sizes) == 1 and all(axis.form is None and not axis.pinned for axis in axes):
                self._join(axes)
                continue
            for part in parts:
                for axis in variables(part[place : place + 1]):
                    self.freeze(axis, "other parts of the same tensor cannot be made smaller")
        if len(sizes) > 1:
            for axis in (axis for part in parts for axis in variables(part)):
                self.freeze(axis, "parts of one tensor are divided differently")

    def _join(self, axes: Sequence[Axis]) -> None:
        members = list(dict.fromkeys(other for axis in axes for other in self.tied(axis)))
        reason = next((self.frozen[axis] for axis in members if axis in self.frozen), None)
        for axis in members:
            self._group[axis] = members
            if reason is not None:
                self.frozen[axis] = reason


def _all_dims(axes: Sequence) -> Iterator[Sequence[Dim]]:
    for own in axes:
        yield from own.given
        yield from own.used
        yield from own.outputs


def refused_axes(graph: ParameterGraph, subset: Subset) -> dict[Axis, str]:
    """Return axes along which an operation cannot be given other sizes, with the reason."""
    recording = recording_of(graph)
    found: dict[Axis, str] = {}
    for operation, axes in zip(recording.operations, recording.axes, strict=True):
        if operation.body or not isinstance(operation.func, torch._ops.OpOverload):
            continue
        all_dims = (*axes.used, *axes.outputs)
        try:
            resized(operation, axes, subset)
            for dims in all_dims:
                subset.shape(dims)
        except (PruneError, Ragged) as error:
            cut = {
                axis for dims in all_dims for dim in dims for axis in variables(dim) if axis in subset.kept
            }
            found |= {axis: str(error) for axis in cut}
    return found
