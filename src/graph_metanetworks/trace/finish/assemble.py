"""Assemble a parameter graph from an interpreted tape."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from graph_metanetworks.graph.parameter_graph import ParameterGraph
from graph_metanetworks.graph.parts import EdgeBlock, NodeGroup, Parameter
from graph_metanetworks.symmetry.axes import (
    Axis,
    Cases,
    Dim,
    collapse,
    is_pinned,
    leaves,
    pin,
    size,
    unify,
    variables,
)
from graph_metanetworks.symmetry.group import Symmetry
from graph_metanetworks.symmetry.settle import settle
from graph_metanetworks.trace.finish.attach import attach_the_rest
from graph_metanetworks.trace.finish.attention import (
    forget_other_products,
    index_heads,
    share_middle,
)
from graph_metanetworks.trace.finish.blocks import make_blocks
from graph_metanetworks.trace.finish.projections import name_projections
from graph_metanetworks.trace.interpret import wiring
from graph_metanetworks.trace.interpret.builder import ParameterGraphBuilder
from graph_metanetworks.trace.interpret.interpreter import Interpreter
from graph_metanetworks.trace.interpret.value import Value

NOT_COMPUTED = {"input", "constant", "vocabulary"}


def assemble(
    trace: Interpreter,
    parameters: Sequence[Parameter],
    dims: Mapping[str, list[Dim]],
    outputs: Sequence[Value],
    *,
    attention: str,
    heads: str,
    ignored: frozenset[str],
    unseen: frozenset[str],
    name: str,
) -> ParameterGraph:
    builder = trace.builder
    _pin_outputs(trace, outputs)
    _pin_unreached(trace, dims)
    forget_other_products(builder)
    _tell_pooled_apart(builder)
    _settle(trace)  # before weights are cut, or spurious dependences of a stream would be cut too
    name_projections(builder)
    if attention == "shared":
        trace.notes += share_middle(builder)
    node_head = index_heads(builder) if heads == "index" else None
    _settle(trace)
    shapes = {p.name: p.shape for p in parameters}
    attach_the_rest(builder, shapes, dims)
    _settle(trace)
    blocks, kept = _without_lone_nodes(builder, make_blocks(builder, shapes))
    _set_depths(builder, blocks)
    by_name = {
        name: tuple(leaves(dim) for dim in dims[p.name]) for p in parameters for name in (p.name, *p.tied)
    }
    nodes = tuple((group.start, leaves(group.dim)) for group in builder.groups)
    groups = tuple(_node_group(group) for group in builder.groups)
    return ParameterGraph(
        groups=groups,
        blocks=tuple(blocks),
        parameters=tuple(parameters),
        symmetry=Symmetry(by_name, nodes, builder.num_nodes, groups, tuple(blocks)),
        ignored=ignored,
        unseen=unseen,
        notes=tuple(dict.fromkeys(trace.notes)),
        node_head=None if node_head is None else _of_nodes(kept, node_head),
        name=name,
    )


def _of_nodes(nodes: Tensor, node_head: Tensor) -> Tensor:
    """Return the head of each given node; nodes made afterwards belong to none."""
    later = max(0, int(nodes.max()) + 1 - node_head.numel())
    return torch.nn.functional.pad(node_head, (0, later), value=-1)[nodes]


def _node_group(group) -> NodeGroup:
    return NodeGroup(
        group.name,
        group.kind,
        group.size,
        group.start,
        group.depth,
        group.activation,
        indexed=group.indexed and is_pinned(group.dim),
        axes=tuple((axis.size, axis.pinned) for axis in leaves(group.dim)),
    )


def _pin_outputs(trace: Interpreter, outputs: Sequence[Value]) -> None:
    for value in outputs:
        for dim in value.dims:
            pin(dim, "output")
        shape = [size(leaves(dim)) for dim in value.dims]
        if not value.labels and value.behind is not None and shape and 0 not in shape:
            wiring.label_along(trace, value, shape, len(shape) - 1)
        for label in value.labels:
            for group in trace.builder.groups_in(label):
                if group.kind not in NOT_COMPUTED:
                    group.kind, group.indexed = "output", True


def _pin_unreached(trace: Interpreter, dims: Mapping[str, list[Dim]]) -> None:
    """Pin axes that never met an activation in this example, because nothing is known about them."""
    reached = {v for dims in trace.reached for dim in dims for v in variables(dim)}
    for name, own in dims.items():
        for dim in own:
            _follow_what_was_read(dim, reached)
            for v in variables(dim):
                if v not in reached:
                    pin([v], f"'{name}' was not reached by the example")


def _follow_what_was_read(dim: Dim, reached: set[Axis]) -> None:
    """Permute rows that the example did not read like those that it did."""
    for axis in leaves(dim):
        if not isinstance(axis.form, Cases):
            continue
        parts = [part for _, part in axis.form.parts]
        read = [part for part in parts if any(v in reached for v in variables(part))]
        for part in parts:
            if read and part not in read:
                unify(read[0], part, "rows that the example did not read")
        if len({tuple(leaves(part)) for part in parts}) == 1:
            collapse(axis, "rows that are all equal")


def _settle(trace: Interpreter) -> None:
    settle([*trace.types, *([group.dim] for group in trace.builder.groups)])


def _without_lone_nodes(
    builder: ParameterGraphBuilder, blocks: list[EdgeBlock]
) -> tuple[list[EdgeBlock], Tensor]:
    """Drop groups that no edge touches (results of weights attached elsewhere); return the nodes kept too."""
    touched = torch.zeros(builder.num_nodes, dtype=torch.bool, device="cpu")
    for block in blocks:
        touched[block.source.reshape(-1)] = True
        touched[block.target.reshape(-1)] = True
    groups = [g for g in builder.groups if bool(touched[g.start : g.start + g.size].any())]
    kept = torch.cat([torch.arange(g.start, g.start + g.size, device="cpu") for g in groups])
    if len(groups) == len(builder.groups):
        return blocks, kept
    number = torch.full((builder.num_nodes,), -1, dtype=torch.int64, device="cpu")
    start = 0
    for group in groups:
        number[group.start : group.start + group.size] = torch.arange(start, start + group.size, device="cpu")
        group.start = start
        start += group.size
    builder.reset(groups, start, number)
    return [replace(b, source=number[b.source], target=number[b.target]) for b in blocks], kept


def _tell_pooled_apart(builder: ParameterGraphBuilder) -> None:
    """Give two weights different kinds where the same nodes are used both pooled over positions and not."""
    used = {
        pooled: {
            group.start
            for edges in builder.edges
            if edges.view is not None and edges.kind == "linear weight" and edges.pooled == pooled
            for group in builder.groups_in(edges.source)
        }
        for pooled in (True, False)
    }
    both = used[True] & used[False]
    for edges in builder.edges:
        if edges.pooled and any(g.start in both for g in builder.groups_in(edges.source)):
            edges.kind = "pooled weight"


def _set_depths(builder: ParameterGraphBuilder, blocks: Sequence[EdgeBlock]) -> None:
    """Set depths to the longest path from an input; sources of parameters lie one above their targets."""
    number = {id(group): i for i, group in enumerate(builder.groups)}
    after: dict[int, set[int]] = defaultdict(set)
    entering = [0] * len(builder.groups)
    for block in blocks:
        sources = [number[id(g)] for g in builder.groups_in(block.source)]
        targets = [number[id(g)] for g in builder.groups_in(block.target)]
        for source in sources:
            for target in targets:
                if source != target and target not in after[source]:
                    after[source].add(target)
                    entering[target] += 1
    roots = {i for i, group in enumerate(builder.groups) if not entering[i]}
    depth = [0] * len(builder.groups)
    waiting = sorted(roots)
    order = []
    while waiting:
        current = waiting.pop()
        order.append(current)
        for target in after[current]:
            if builder.groups[target].kind != "input":
                depth[target] = max(depth[target], depth[current] + 1)
            entering[target] -= 1
            if not entering[target]:
                waiting.append(target)
    if len(order) < len(builder.groups):  # recurrent connections: keep the depth of first use
        return
    for index, group in enumerate(builder.groups):
        group.depth = depth[index]
        if index in roots and group.kind not in NOT_COMPUTED:
            group.depth = max(0, min((depth[t] for t in after[index]), default=1) - 1)
