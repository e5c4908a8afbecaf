"""A parameter graph in outline: a box per node group, an arrow per kind of edge between two boxes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from graph_metanetworks.block_ends import BlockEnds
from graph_metanetworks.graph import NodeGroup, ParameterGraph
from graph_metanetworks.plot.repeats import fold_repeats


@dataclass(frozen=True, slots=True)
class Box:
    """A node group, or the same group in each of `copies` equal layers."""

    group: NodeGroup
    copies: int
    parameters: tuple[str, ...]  # kinds of the single nodes (bias, scale, ...) that feed this box alone


@dataclass(frozen=True, slots=True)
class Arrow:
    source: int  # number of a box
    target: int
    kind: str
    structural: bool


@dataclass(frozen=True, slots=True)
class Outline:
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]


def outline(graph: ParameterGraph, *, fold: bool) -> Outline:
    """Boxes in order of depth. With `fold`, layers that repeat are one layer."""
    ends = BlockEnds(graph)
    first = fold_repeats(graph.groups) if fold else {group: group for group in graph.groups}
    joined = _joined(graph, ends, first)
    alone = _single_targets(joined, ends)
    shown = sorted(set(first.values()) - alone.keys(), key=lambda group: (group.depth, group.start))
    number = {group: index for index, group in enumerate(shown)}
    copies = {group: sum(other == group for other in first.values()) for group in shown}
    boxes = [
        Box(group, copies[group], tuple(one.kind for one, target in alone.items() if target == group))
        for group in shown
    ]
    arrows = [
        Arrow(number[source], number[target], kind, structural)
        for source, target, kind, structural in joined
        if source not in alone
    ]
    return Outline(tuple(boxes), tuple(arrows))


Joint = tuple[NodeGroup, NodeGroup, str, bool]


def _joined(graph: ParameterGraph, ends: BlockEnds, first: Mapping[NodeGroup, NodeGroup]) -> list[Joint]:
    """Which groups are joined by which kind of edge, without the edges from a layer to its next copy."""
    found: dict[Joint, None] = {}
    for block in graph.blocks:
        for source, target in ends.pairs(block):
            a, b = first[source], first[target]
            to_next_copy = a.depth >= b.depth and (source, target) != (a, b)
            if not to_next_copy:
                found[a, b, block.kind, block.parameter is None] = None
    return list(found)


def _single_targets(joined: list[Joint], ends: BlockEnds) -> dict[NodeGroup, NodeGroup]:
    """The one group that each parameter's own node feeds, where it is one."""
    targets: dict[NodeGroup, set[NodeGroup]] = {}
    for source, target, _, _ in joined:
        if source in ends.parameter_nodes:
            targets.setdefault(source, set()).add(target)
    return {source: found.pop() for source, found in targets.items() if len(found) == 1}
