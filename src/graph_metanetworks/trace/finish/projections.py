"""Name the projections of attention: query, key, value and output."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import torch
from torch import Tensor

from graph_metanetworks.symmetry.axes import Dim, narrow, reshape
from graph_metanetworks.trace.interpret.builder import DraftEdges, ParameterGraphBuilder
from graph_metanetworks.trace.interpret.labels import View, compact, pattern

PROJECTIONS = ("", "query", "key", "value", "output")
MOST_PARTS = 64  # a packed weight with more parts keeps one kind


def name_projections(builder: ParameterGraphBuilder) -> None:
    """Give the weights and biases of projections their own kinds; split packed ones."""
    projection = _projection_of_nodes(builder)
    named = []
    for edges in builder.edges:
        projects = edges.view is not None and edges.kind.startswith("linear ")
        named += _split_by_projection(edges, projection) if projects else [edges]
    builder.edges = named


def _projection_of_nodes(builder: ParameterGraphBuilder) -> Tensor:
    """Return whether each node is a query, key, value or output, as an index into PROJECTIONS. [N]"""
    projection = torch.zeros(builder.num_nodes, dtype=torch.int8, device="cpu")
    for attention in builder.attentions:
        labels = [("query", attention.queries), ("key", attention.keys)]
        for name, label in labels + [("value", values) for values in attention.values]:
            _assign(projection, compact(label, pattern(label)), name)
    spread_back(builder, projection)
    context = {id(group) for group in builder.groups if group.kind == "context"}
    for edges in builder.edges:
        weight = edges.view is not None and edges.kind == "linear weight"
        if weight and all(id(group) in context for group in builder.groups_in(edges.source)):
            _assign(projection, compact(edges.target, pattern(edges.target)), "output")
    return projection


def _assign(projection: Tensor, label: Tensor, name: str) -> None:
    nodes = label.reshape(-1)
    nodes = nodes[nodes >= 0]
    projection[nodes[projection[nodes] == 0]] = PROJECTIONS.index(name)


def spread_back(builder: ParameterGraphBuilder, mark: Tensor) -> None:
    """Mark nodes that feed only marked nodes, such as queries before a rotation or a norm.

    `mark` has a number for each node, 0 for those not marked, and is changed in place. [N]
    """
    feeds_weights = torch.zeros(builder.num_nodes, dtype=torch.bool, device="cpu")
    structural = []
    for edges in builder.edges:
        if edges.view is not None:
            feeds_weights[compact(edges.source, pattern(edges.source)).reshape(-1)] = True
        elif edges.kind in ("residual", "share", "product"):
            structural.append(edges)
    if not structural:
        return
    source = torch.cat([e.source for e in structural])
    target = torch.cat([e.target for e in structural])
    for _ in range(3):
        low = torch.full_like(mark, int(mark.max()) + 1).scatter_reduce_(0, source, mark[target], "amin")
        high = torch.zeros_like(mark).scatter_reduce_(0, source, mark[target], "amax")
        found = (low == high) & (high > 0) & (mark == 0) & ~feeds_weights
        if not bool(found.any()):
            return
        mark[found] = high[found]


def _split_by_projection(edges: DraftEdges, projection: Tensor) -> list[DraftEdges]:
    along = pattern(edges.target)
    values = projection[compact(edges.target, along)]
    if values.unique().numel() == 1:
        return [_named(edges, int(values.reshape(-1)[0]))]
    if len(along) != 1:
        return [edges]
    (dim,) = along
    line = values.reshape(-1)
    starts = [0, *(int(i) + 1 for i in (line[1:] != line[:-1]).nonzero()), line.numel()]
    period = _period(starts, line)
    if period:
        wide = _folded(edges, dim, period[-1])
        return [_named(_part(wide, dim + 1, a, b), int(line[a])) for a, b in pairwise(period)]
    if len(starts) - 1 > MOST_PARTS:
        return [edges]
    return [_named(_part(edges, dim, a, b), int(line[a])) for a, b in pairwise(starts)]


def _period(starts: list[int], line: Tensor) -> list[int]:
    """Return the boundaries within one period if projections repeat (q, k, v packed per head)."""
    for parts in (2, 3):
        if len(starts) - 1 > parts and (len(starts) - 1) % parts == 0:
            length = starts[parts]
            rounds = line.numel() // length
            if length * rounds == line.numel() and bool((line.view(rounds, length) == line[:length]).all()):
                return starts[: parts + 1]
    return []


def _folded(edges: DraftEdges, dim: int, length: int) -> DraftEdges:
    """Return the same edges with a dimension split into periods of the given length."""
    assert edges.view is not None
    cut = (edges.view.label.size(dim) // length, length)

    def fold(end: Tensor) -> Tensor:
        inner = cut if end.size(dim) > 1 else (1, 1)
        return end.view(*end.shape[:dim], *inner, *end.shape[dim + 1 :])

    dims = [*edges.dims[:dim], *reshape([edges.dims[dim]], cut), *edges.dims[dim + 1 :]]
    return replace(
        edges,
        source=fold(edges.source),
        target=fold(edges.target),
        view=View(edges.view.parameter, fold(edges.view.label)),
        dims=dims,
        sites=frozenset(d + (d > dim) for d in edges.sites),
    )


def _part(edges: DraftEdges, dim: int, start: int, stop: int) -> DraftEdges:
    assert edges.view is not None

    def part(end: Tensor) -> Tensor:
        return end.narrow(dim, start, stop - start) if end.size(dim) > 1 else end

    dims: list[Dim] = narrow(edges.dims, dim, start, stop - start)
    view = View(edges.view.parameter, part(edges.view.label))
    return replace(edges, source=part(edges.source), target=part(edges.target), view=view, dims=dims)


def _named(edges: DraftEdges, projection: int) -> DraftEdges:
    if not projection:
        return edges
    return replace(edges, kind=edges.kind.replace("linear", PROJECTIONS[projection]))
