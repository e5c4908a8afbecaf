"""Attach parameters by their axes where no operation showed them as edges.

These are parameters that went through arithmetic (low-rank updates, norms of weights), rows that the example
never read, and uses in which a permuted axis would not be visible at either end. Their nodes are those along
the parameter's own axes, taken from nearby if an operation said so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from itertools import accumulate
from math import prod

import torch
from torch import Tensor

from graph_metanetworks.symmetry.axes import Concat, Dim, is_pinned, leaves, narrow, variables
from graph_metanetworks.trace.finish.coverage import Coverage
from graph_metanetworks.trace.interpret.builder import DraftEdges, ParameterGraphBuilder, UnattachedParameter
from graph_metanetworks.trace.interpret.labels import (
    NOTHING,
    View,
    canonical,
    lay_along,
    pairs,
    pattern,
    varies,
)


def attach_the_rest(
    builder: ParameterGraphBuilder, shapes: Mapping[str, tuple[int, ...]], dims: Mapping[str, list[Dim]]
) -> None:
    """Make edges for every parameter element that has none yet."""
    _drop_blind_edges(builder)
    loose: dict[str, UnattachedParameter] = {}
    for one in builder.loose:
        loose.setdefault(one.parameter, one)
    uses: dict[str, list[DraftEdges]] = defaultdict(list)
    for edges in builder.edges:
        if edges.view is not None:
            uses[edges.view.parameter].append(edges)
    for name, shape in shapes.items():
        if 0 in shape:
            continue
        kin = uses[name]
        missing = _missing(kin, shape)
        if missing is None:
            continue
        near = loose.get(name, UnattachedParameter(name, name.rpartition(".")[0]))
        if kin:
            near = UnattachedParameter(name, kin[0].path, near.nearby + _nodes_along(builder, kin[0]))
        kind = kin[0].kind if kin else "weight" if len(shape) > 1 else "shift"
        _attach_by_axes(builder, kind, near, missing, shape, dims[name])


def _drop_blind_edges(builder: ParameterGraphBuilder) -> None:
    """Undo uses in which a permuted axis of the parameter is not visible in the nodes at either end."""
    kept = []
    for edges in builder.edges:
        if edges.view is not None and _is_blind(builder, edges):
            nearby = _nodes_along(builder, edges)
            builder.loose.insert(0, UnattachedParameter(edges.view.parameter, edges.path, nearby))
        else:
            kept.append(edges)
    builder.edges = kept


def _is_blind(builder: ParameterGraphBuilder, edges: DraftEdges) -> bool:
    assert edges.view is not None
    if not _tells_ends(edges):
        return True
    needed = {
        v for d in pattern(edges.view.label) for v in variables(edges.dims[d]) if not v.pinned and v.size > 1
    }
    if not needed:
        return False
    shown = {
        v
        for end in (edges.source, edges.target)
        for group in builder.groups_in(end)
        for v in variables(group.dim)
    }
    return not (needed <= shown and _tells_places(edges))


def _tells_places(edges: DraftEdges) -> bool:
    """Return whether the elements along each permuted axis, which may repeat, lie between different nodes."""
    assert edges.view is not None
    label = edges.view.label
    ends = [end.expand(label.shape) for end in (edges.source, edges.target)]
    return all(_tells_along(label, ends, d, edges.dims[d]) for d in pattern(label))


def _tells_along(label: Tensor, ends: list[Tensor], where: int, dim: Dim) -> bool:
    axes = leaves(dim)
    lengths = [axis.size for axis in axes]
    label, *ends = (x.unflatten(where, lengths) for x in (label, *ends))
    for position, axis in enumerate(axes, where):
        if is_pinned([axis]):
            continue
        if isinstance(axis.form, Concat):
            starts = [0, *accumulate(length for length, _ in axis.form.parts)]
            for start, (length, part) in zip(starts, axis.form.parts, strict=False):
                inner_label, *inner = (x.narrow(position, start, length) for x in (label, *ends))
                if length > 1 and not _tells_along(inner_label, inner, position, part):
                    return False
        elif not any(varies(canonical(end), position) for end in ends) and varies(canonical(label), position):
            return False
    return True


def _tells_ends(edges: DraftEdges) -> bool:
    """Return whether every element lies between one pair of nodes, even if it occurs several times."""
    assert edges.view is not None
    label = edges.view.label
    if label.device.type == "meta":
        return True
    ends = (edges.source.expand(label.shape), edges.target.expand(label.shape))
    return all(pairs(label, end)[0].unique_consecutive(return_counts=True)[1].max() == 1 for end in ends)


def _nodes_along(builder: ParameterGraphBuilder, edges: DraftEdges) -> list[tuple[Dim, Tensor]]:
    groups = [g for end in (edges.source, edges.target) for g in builder.groups_in(end)]
    return [(g.dim, torch.arange(g.start, g.start + g.size)) for g in groups if g.size > 1]


def _missing(uses: list[DraftEdges], shape: tuple[int, ...]) -> Tensor | None:
    """Return the elements of a parameter that lie on no edge yet, or None if there are none."""
    covered = Coverage(prod(shape))
    for edges in uses:
        if edges.view is not None:
            covered.add(edges.view.elements())
    if covered.is_complete:
        return None
    every = torch.arange(covered.total, device="cpu")
    return torch.where(covered.mask(), NOTHING, every).view(shape)


def _attach_by_axes(
    builder: ParameterGraphBuilder,
    kind: str,
    near: UnattachedParameter,
    missing: Tensor,
    shape: tuple[int, ...],
    dims: list[Dim],
) -> None:
    ends: list[Tensor] = []
    for index, dim in enumerate(dims):
        nodes = _nodes_for(builder, near, dim, shape[index])
        if nodes is not None:
            ends.append(lay_along(nodes, index, len(shape)))
    ends.sort(key=lambda end: (builder.depths(end)[0], int(end.min())))
    while len(ends) > 2:  # an edge has two ends, so with more permuted axes one end stands for pairs
        ends[:2] = [_pairs(builder, near, ends[0], ends[1])]
    if not ends:
        ends = [_hub(builder, near).view([1] * len(shape))]
    if len(ends) == 1:
        depth = max(0, builder.depths(ends[0])[1] - 1)
        ends.insert(0, builder.node("parameter", near.path, depth).view([1] * len(shape)))
    source, target = (end.expand(shape) for end in ends)
    view = View.whole(near.parameter, shape)
    box = _box(missing)
    if box is None:
        builder.attach(kind, View(near.parameter, missing), dims, source, target, near.path)
        return
    for dim, (start, length) in enumerate(box):
        dims = narrow(dims, dim, start, length)
        view = view.moved(lambda label, d=dim, s=start, n=length: label.narrow(d, s, n))
        source, target = source.narrow(dim, start, length), target.narrow(dim, start, length)
    builder.attach(kind, view, dims, source, target, near.path)


def _box(missing: Tensor) -> list[tuple[int, int]] | None:
    """Return the range (start, length) along each dimension if the missing elements fill a box."""
    where = (missing != NOTHING).nonzero()
    low, high = where.min(dim=0).values, where.max(dim=0).values
    lengths = high - low + 1
    if int(lengths.prod()) != len(where):
        return None
    return list(zip(low.tolist(), lengths.tolist(), strict=True))


def _hub(builder: ParameterGraphBuilder, near: UnattachedParameter) -> Tensor:
    """Make one node for everything that a parameter without permuted axes acts on."""
    if not near.nearby:
        return builder.node("shared", near.path, 1)
    nodes = near.nearby[-1][1]
    hub = builder.node("shared", near.path, max(0, builder.depths(nodes)[0] - 1))
    builder.connect("share", hub.expand(nodes.shape), nodes, near.path)
    return hub


def _nodes_for(
    builder: ParameterGraphBuilder, near: UnattachedParameter, dim: Dim, length: int
) -> Tensor | None:
    """Return the nodes along an axis: nearby, other or new ones; None for a pinned axis that has none."""
    axes = leaves(dim)
    if length == 1:
        return None
    for nearby, nodes in near.nearby:
        if leaves(nearby) == axes and nodes.numel() == length:
            return nodes
    if is_pinned(dim):
        return None
    for group in builder.groups:
        if group.size == length and leaves(group.dim) == axes:
            return torch.arange(group.start, group.start + length, device="cpu")
    lowest = min((builder.depths(nodes)[0] for _, nodes in near.nearby), default=0)
    return builder.nodes("axis", near.path, axes, length, lowest)


def _pairs(
    builder: ParameterGraphBuilder, near: UnattachedParameter, first: Tensor, second: Tensor
) -> Tensor:
    shape = torch.broadcast_shapes(first.shape, second.shape)
    along = pattern(first.expand(shape)) | pattern(second.expand(shape))
    axes = [[] for _ in shape]
    for end in (first, second):
        for d in pattern(end):
            axes[d] = list(builder.group_of(int(end.min())).dim)
    depth = builder.depths(first, second)[1] + 1
    pair = builder.label("product", near.path, shape, axes, along, depth)
    builder.connect("product", first.expand(shape), pair, near.path)
    builder.connect("product", second.expand(shape), pair, near.path)
    return pair
