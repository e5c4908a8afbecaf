"""A parameter graph in outline: a box per node group, an arrow per kind of edge between two boxes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from graph_metanetworks.plot.repeats import fold_repeats

if TYPE_CHECKING:
    from graph_metanetworks.graph.block_ends import BlockEnds
    from graph_metanetworks.graph.parameter_graph import ParameterGraph
    from graph_metanetworks.graph.parts import NodeGroup


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
    """Return boxes in order of depth. With `fold`, layers that repeat are one layer."""
    ends = graph.block_ends
    first = fold_repeats(graph) if fold else {group: group for group in graph.groups}
    joined = [(block, *pair) for block in graph.blocks for pair in ends.pairs(block)]
    feeds = _feeds(ends, ((source, target) for _, source, target in joined))
    dots = _dots(feeds, first)
    shown = sorted({first[g] for g in graph.groups if g not in feeds}, key=lambda g: (g.depth, g.start))
    number = {group: index for index, group in enumerate(shown)}
    copies = Counter(first.values())
    boxes = [Box(group, copies[group], tuple(dots[group].elements())) for group in shown]
    arrows: dict[Arrow, None] = {}
    for block, source, target in joined:
        a, b = first[source], first[target]
        to_next_copy = a.depth >= b.depth and (source, target) != (a, b)
        if source not in feeds and not to_next_copy:
            arrows[Arrow(number[a], number[b], block.kind, block.parameter is None)] = None
    return Outline(tuple(boxes), tuple(arrows))


def _feeds(ends: BlockEnds, pairs: Iterable[tuple[NodeGroup, NodeGroup]]) -> dict[NodeGroup, NodeGroup]:
    """Return the group that each parameter's own node feeds, where there is only one."""
    targets: dict[NodeGroup, set[NodeGroup]] = defaultdict(set)
    for source, target in pairs:
        if source in ends.parameter_nodes:
            targets[source].add(target)
    return {source: found.pop() for source, found in targets.items() if len(found) == 1}


def _dots(
    feeds: Mapping[NodeGroup, NodeGroup], first: Mapping[NodeGroup, NodeGroup]
) -> dict[NodeGroup, Counter[str]]:
    """Return the kinds of the nodes that feed a box; for a layer that repeats, as many as any copy has."""
    kinds: dict[NodeGroup, Counter[str]] = defaultdict(Counter)
    for node, target in feeds.items():
        kinds[target][node.kind] += 1
    dots: dict[NodeGroup, Counter[str]] = defaultdict(Counter)
    for target, counted in kinds.items():
        dots[first[target]] |= counted
    return dots
