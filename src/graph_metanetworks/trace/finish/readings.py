"""Choose the tensor that shows the activations of each node group."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from graph_metanetworks.trace.interpret.builder import DraftGroup, ParameterGraphBuilder
from graph_metanetworks.trace.interpret.interpreter import Interpreter
from graph_metanetworks.trace.interpret.labels import compact, pattern
from graph_metanetworks.trace.interpret.value import Value
from graph_metanetworks.trace.record.operation import TensorRef
from graph_metanetworks.trace.replay.readings import LARGEST, Reading


@dataclass(frozen=True, slots=True, eq=False)
class _Shown:
    """A tensor that shows nodes: which ones at each index along the dimensions that tell them apart."""

    step: int
    ref: TensorRef
    dims: tuple[int, ...]
    nodes: Tensor  # flattened
    passed: str

    @property
    def entries(self) -> int:
        """Entries of the tensor, without those that `expand` repeats."""
        return prod(n for n, stride in zip(self.ref.shape, self.ref.strides, strict=True) if stride)


def choose_readings(trace: Interpreter) -> list[Reading]:
    """Choose for each node group the tensor that shows it best.

    It is the first one after the group's activation function. For a group without one it is the last among
    those with the most entries, so that the mean is taken over positions before these are pooled; of two that
    show the same, the one that shows each node at fewer indices. Groups that no tensor shows completely have
    no reading: nodes where parameters start, and those inside a declared module.
    """
    chosen: dict[int, _Shown] = {}  # by the start of the group
    for shown in _all_shown(trace):
        for group in _complete_groups(trace.builder, shown.nodes):
            known = chosen.get(group.start)
            if known is None or _rank(shown, group) > _rank(known, group):
                chosen[group.start] = shown
    by_tensor: dict[int, list[DraftGroup]] = defaultdict(list)
    for group in trace.builder.groups:
        if group.start in chosen:
            by_tensor[id(chosen[group.start])].append(group)
    tensors = {id(shown): shown for shown in chosen.values()}
    return [_reading(tensors[key], groups) for key, groups in by_tensor.items()]


def _all_shown(trace: Interpreter) -> list[_Shown]:
    found = []
    for step, ref, value in trace.shown:
        if not ref.dtype.is_floating_point or not ref.strides or 0 in ref.shape:
            continue
        found += [_shown(trace, step, ref, value, label) for label in value.labels]
    return found


def _shown(trace: Interpreter, step: int, ref: TensorRef, value: Value, label: Tensor) -> _Shown:
    dims = tuple(sorted(pattern(label)))
    nodes = trace.builder.final(compact(label, dims).reshape(-1))
    return _Shown(step, ref, dims, nodes, value.passed)


def _complete_groups(builder: ParameterGraphBuilder, nodes: Tensor) -> list[DraftGroup]:
    """Return the node groups of which every node occurs."""
    if not bool((nodes >= 0).any()):
        return []
    distinct = nodes.unique()
    return [
        group
        for group in builder.groups_in(distinct)
        if int(((distinct >= group.start) & (distinct < group.start + group.size)).sum()) == group.size
    ]


def _rank(shown: _Shown, group: DraftGroup) -> tuple:
    """Order tensors that show a group; of equal ones the first is kept."""
    if group.activation and shown.passed == group.activation:
        return 1, 0, 0, -shown.step
    return 0, shown.entries, -shown.nodes.numel(), shown.step


def _reading(shown: _Shown, groups: list[DraftGroup]) -> Reading:
    wanted = torch.zeros_like(shown.nodes, dtype=torch.bool)
    for group in groups:
        wanted |= (shown.nodes >= group.start) & (shown.nodes < group.start + group.size)
    rows = None if bool(wanted.all()) else wanted.nonzero().reshape(-1)
    nodes = _short(shown.nodes[wanted].clone())
    return Reading(shown.step, shown.ref.key, shown.dims, nodes, rows, _may_be_masked(shown.ref))


def _short(nodes: Tensor) -> Tensor | range:
    """Return consecutive numbers as a range."""
    first, last = int(nodes[0]), int(nodes[-1])
    consecutive = last - first + 1 == len(nodes) and bool((nodes.diff() == 1).all())
    return range(first, last + 1) if consecutive else nodes


def _may_be_masked(ref: TensorRef) -> bool:
    """Return whether entries are infinite or stand for infinity; true if nobody knows."""
    if not ref.has_value:
        return True
    return not bool((ref.value.abs() < LARGEST).all())
