"""Collect node groups and edges while the tape is interpreted."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import prod

import torch
from torch import Tensor

from graph_metanetworks.symmetry.axes import Axis, Dim, leaves
from graph_metanetworks.trace.interpret.labels import (
    NOTHING,
    View,
    canonical,
    compact,
    pairs,
    pattern,
    reshaped,
    varies,
)
from graph_metanetworks.trace.interpret.size_limit import check_size


@dataclass(slots=True)
class DraftGroup:
    """A node group under construction."""

    kind: str
    name: str
    start: int
    size: int
    depth: int
    dim: Dim
    activation: str = ""
    indexed: bool = False


@dataclass(slots=True)
class DraftEdges:
    """An edge block under construction. `view` holds the parameter's elements; None means structural."""

    kind: str
    source: Tensor
    target: Tensor
    path: str
    view: View | None = None
    dims: list[Dim] = field(default_factory=list)  # axes of the view
    sites: frozenset[int] = frozenset()  # dimensions along which the source is a position, not a channel
    pooled: bool = False  # the source was summed over positions


@dataclass(slots=True)
class AttentionProduct:
    """A product of two activations. It counts as attention if a softmax follows, or values meet its heads."""

    heads: DraftGroup
    scores: DraftGroup
    queries: Tensor
    keys: Tensor
    values: list[Tensor] = field(default_factory=list)
    head_of: list[tuple[Tensor, Tensor]] = field(default_factory=list)  # (nodes, index of their head)
    confirmed: bool = False
    of_positions: bool = False  # with vectors looked up by position, to be added to other scores


@dataclass(slots=True)
class UnattachedParameter:
    """A parameter to be attached by its axes, near the nodes that an operation connected it to."""

    parameter: str
    path: str
    nearby: list[tuple[Dim, Tensor]] = field(default_factory=list)  # axes and the nodes along them


class ParameterGraphBuilder:
    def __init__(self):
        self.groups: list[DraftGroup] = []
        self.edges: list[DraftEdges] = []
        self.loose: list[UnattachedParameter] = []
        self.bare: set[int] = set()  # groups that are the plain result of a linear map so far
        self.attentions: list[AttentionProduct] = []
        self.numbers: list[Tensor] = []  # new numbers of nodes, for each time they were renumbered
        self._starts: list[int] = []
        self.num_nodes = 0

    # -------------------------------------------------------------- nodes

    def nodes(self, kind: str, name: str, dim: Dim, size: int, depth: int) -> Tensor:
        """Add a node group and return its node numbers."""
        check_size([size])
        group = DraftGroup(kind, name, self.num_nodes, size, depth, list(dim))
        self.groups.append(group)
        self._starts.append(group.start)
        self.num_nodes += size
        return torch.arange(group.start, group.start + size, device="cpu")

    def node(self, kind: str, name: str, depth: int) -> Tensor:
        return self.nodes(kind, name, [], 1, depth)

    def label(
        self,
        kind: str,
        name: str,
        shape: Sequence[int],
        dims: Sequence[Dim],
        along: Iterable[int],
        depth: int,
    ) -> Tensor:
        """Make new nodes along the given dimensions and return their label for a tensor of `shape`."""
        along = sorted(along)
        axes = [axis for d in along for axis in dims[d]]
        numbers = self.nodes(kind, name, axes, prod(shape[d] for d in along), depth)
        laid = numbers.view([shape[d] if d in along else 1 for d in range(len(shape))])
        return laid.expand(tuple(shape))

    def label_like(
        self,
        kind: str,
        name: str,
        shape: Sequence[int],
        dims: Sequence[Dim],
        labels: Sequence[Tensor],
        depth: int,
    ) -> Tensor:
        """Make new nodes for whatever the given labels distinguish, at the granularity of axes."""
        axes: list[Axis] = [axis for dim in dims for axis in leaves(dim)]
        lengths = [axis.size for axis in axes] or [1]
        along: set[int] = set()
        for label in labels:
            along |= pattern(canonical(reshaped(label.expand(tuple(shape)), lengths)))
        new = self.label(kind, name, lengths, [[axis] for axis in axes] or [[]], along, depth)
        return canonical(reshaped(new, shape))

    # -------------------------------------------------------------- what nodes are

    def group_of(self, node: int) -> DraftGroup:
        return self.groups[bisect_right(self._starts, node) - 1]

    def groups_in(self, label: Tensor) -> list[DraftGroup]:
        """Return the node groups that occur in a label, in order."""
        label = compact(label, pattern(label))
        low, high = int(label.min()), int(label.max())
        if low < 0:
            label = label[label >= 0]
            if not label.numel():
                return []
            low = int(label.min())
        first, last = (bisect_right(self._starts, node) - 1 for node in (low, high))
        if last - first <= 1:
            return self.groups[first : last + 1]
        starts = torch.tensor(self._starts[first : last + 1], device="cpu")
        found = torch.bucketize(label.reshape(-1).contiguous(), starts, right=True).unique() - 1
        return [self.groups[first + int(i)] for i in found]

    def depths(self, *labels: Tensor) -> tuple[int, int]:
        """Return the smallest and the largest depth of any node in the labels."""
        depths = [group.depth for label in labels for group in self.groups_in(label)]
        return (min(depths), max(depths)) if depths else (0, 0)

    def attentions_in(self, label: Tensor) -> list[AttentionProduct]:
        """Return the products whose heads occur in a label."""
        heads = self.groups_in(label)
        return [a for a in self.attentions if any(a.heads is group for group in heads)]

    def is_used(self, group: DraftGroup) -> bool:
        """Return whether an edge starts at a node of the group."""
        sources = (compact(edges.source, pattern(edges.source)) for edges in self.edges)
        return any(
            bool(((nodes >= group.start) & (nodes < group.start + group.size)).any()) for nodes in sources
        )

    # -------------------------------------------------------------- edges

    def connect(self, kind: str, source: Tensor, target: Tensor, path: str) -> None:
        """Add structural edges between the nodes of two labels of equal shape."""
        both = pairs(source, target)
        both = both[:, (both[0] >= 0) & (both[1] >= 0)]
        if both.size(1):
            self.edges.append(DraftEdges(kind, both[0], both[1], path))
            self.bare -= {group.start for group in self.groups_in(both[1])}

    def attach(
        self,
        kind: str,
        view: View,
        dims: list[Dim],
        source: Tensor,
        target: Tensor,
        path: str,
        sites: Iterable[int] = (),
        pooled: bool = False,
    ) -> None:
        """Add parameter edges.

        The view (with axes `dims`), source and target broadcast against each other.
        """
        shape = torch.broadcast_shapes(view.label.shape, source.shape, target.shape)
        view = view.expand(shape)
        keep = [d for d in range(len(shape)) if varies(view.label, d)]
        label = compact(view.label, keep)
        source, target = (compact(end.expand(shape), keep) for end in (source, target))
        self.edges.append(
            DraftEdges(
                kind,
                source,
                target,
                path,
                View(view.parameter, label),
                dims,
                frozenset(sites),
                pooled,
            )
        )

    def reset(self, groups: list[DraftGroup], num_nodes: int, numbers: Tensor) -> None:
        """Replace the node groups by renumbered ones; `numbers` has the new number of each node, or -1."""
        self.numbers.append(numbers)
        self.groups = groups
        self._starts = [group.start for group in groups]
        self.num_nodes = num_nodes

    def final(self, label: Tensor) -> Tensor:
        """Return a label made during interpretation in the numbers that nodes have now."""
        for numbers in self.numbers:
            label = torch.where(label >= 0, numbers[label.clamp(min=0)], NOTHING)
        return label
