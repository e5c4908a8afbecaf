"""Attention as seen in the finished graph: queries, keys, values and outputs; the paper's variants."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import torch
from torch import Tensor

from graph_metanetworks.elements import Elements
from graph_metanetworks.graph import EdgeBlock
from graph_metanetworks.symmetry.axes import pin, unify
from graph_metanetworks.trace.builder import Builder
from graph_metanetworks.trace.labels import compact, pattern

DUTIES = ("", "query", "key", "value", "output")
MOST_PARTS = 64  # a packed weight that would fall into more parts keeps one kind


def index_heads(builder: Builder) -> None:
    """The paper's variant: one attention node instead of a node per head; heads are pinned and numbered."""
    for group in builder.groups:
        if group.kind == "head":
            pin(group.dim, "heads told apart by index")
    for nodes, _ in builder.head_of:
        for group in builder.groups_in(nodes):
            group.indexed = group.indexed and not group.dim
    merged = torch.arange(builder.num_nodes, device="cpu")
    for group in builder.groups:
        if group.kind == "head":
            merged[group.start : group.start + group.size] = group.start
    _renumber(builder, merged)


def head_index(builder: Builder) -> Tensor:
    """The head of each node, -1 for nodes outside attention. [N]"""
    heads = torch.full((builder.num_nodes,), -1, dtype=torch.int64, device="cpu")
    for nodes, index in builder.head_of:
        heads[nodes] = index
    return heads


def share_middle(builder: Builder) -> list[str]:
    """The paper's variant: query, key and value of an attention meet in the same nodes.

    Returns notes on attentions where this cannot be done because they have fewer key than query heads.
    """
    notes = []
    merged = torch.arange(builder.num_nodes, device="cpu")
    for group in builder.groups:
        if group.kind != "context":
            continue
        sides = _sides(builder, group.start, group.size)
        if sides is None:
            notes.append(
                f"attention in '{group.name}': queries, keys and values differ in number, so they "
                "keep nodes of their own"
            )
            continue
        middle = torch.arange(group.start, group.start + group.size, device="cpu")
        for nodes, dim in sides:
            unify(dim, group.dim, "shared attention nodes")
            merged[nodes] = middle
    _renumber(builder, merged)
    return notes


def _sides(builder: Builder, start: int, size: int):
    """Queries, keys, score pairs and values of one attention, each aligned with its result."""

    def incoming(kind: str, first: int, last: int) -> list[tuple[Tensor, Tensor]]:
        return [
            (e.source, e.target)
            for e in builder.edges
            if e.view is None and e.kind == kind and first <= int(e.target.min()) < last
        ]

    values = incoming("value", start, start + size)
    heads = incoming("head", start, start + size)
    if len(values) != 1 or len(heads) != 1:
        return None
    head = builder.group_of(int(heads[0][0].min()))
    scores = incoming("head", head.start, head.start + head.size)
    if len(scores) != 1:
        return None
    pair = builder.group_of(int(scores[0][0].min()))
    aligned = [(torch.arange(pair.start, pair.start + pair.size), pair.dim)]
    for kind, group_start, group_size in (
        ("query", pair.start, pair.size),
        ("key", pair.start, pair.size),
        ("value", start, size),
    ):
        found = incoming(kind, group_start, group_start + group_size)
        if len(found) != 1 or pair.size != size:
            return None
        source, target = found[0]
        groups = builder.groups_in(source)
        if source.unique().numel() != size or len(groups) != 1 or groups[0].size != size:
            return None
        aligned.append((source[target.argsort()], groups[0].dim))
    return aligned


def _renumber(builder: Builder, merged: Tensor) -> None:
    """Replace nodes by those they were merged into, and drop groups that are gone."""
    remaining = merged.unique()
    dense = torch.full((builder.num_nodes,), -1, dtype=torch.int64, device="cpu")
    dense[remaining] = torch.arange(remaining.numel(), device="cpu")
    final = dense[merged]
    groups = []
    for group in builder.groups:
        kept = remaining[(remaining >= group.start) & (remaining < group.start + group.size)]
        if not kept.numel():
            continue
        group.dim = group.dim if kept.numel() == group.size else []
        group.start, group.size = int(dense[kept[0]]), int(kept.numel())
        groups.append(group)
    for edges in builder.edges:
        edges.source, edges.target = final[edges.source], final[edges.target]
    builder.edges = [e for e in builder.edges if e.view is not None or not _is_gone(builder, e, merged)]
    builder.duties = [(duty, final[nodes]) for duty, nodes in builder.duties]
    builder.head_of = [(final[nodes], index) for nodes, index in builder.head_of]
    for loose in builder.loose:
        loose.nearby = [(dim, final[nodes]) for dim, nodes in loose.nearby]
    builder.reset(groups, int(remaining.numel()))


def _is_gone(builder: Builder, edges, merged: Tensor) -> bool:
    """Structural edges that merging turned into loops, or into a loop from nodes through their head."""
    if bool((edges.source == edges.target).all()):
        return True
    return False


# ------------------------------------------------------------------ kinds of edges


def duty_of_nodes(builder: Builder) -> Tensor:
    """For each node whether it is a query, key or value, as an index into DUTIES. [N]"""
    duty = torch.zeros(builder.num_nodes, dtype=torch.int8, device="cpu")
    for name, label in builder.duties:
        nodes = compact(label, pattern(label)).reshape(-1)
        nodes = nodes[nodes >= 0]
        duty[nodes] = torch.where(duty[nodes] == 0, DUTIES.index(name), duty[nodes]).to(torch.int8)
    _spread_back(builder, duty)
    return duty


def _spread_back(builder: Builder, duty: Tensor) -> None:
    """Nodes that feed nothing but queries (before a rotation or a norm, say) are queries too."""
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
        low = torch.full_like(duty, len(DUTIES)).scatter_reduce_(0, source, duty[target], "amin")
        high = torch.zeros_like(duty).scatter_reduce_(0, source, duty[target], "amax")
        found = (low == high) & (high > 0) & (duty == 0) & ~feeds_weights
        if not bool(found.any()):
            return
        duty[found] = high[found]


def name_attention_edges(
    blocks: list[EdgeBlock], builder: Builder, duty: Tensor
) -> list[EdgeBlock]:
    """Give projections of queries, keys, values and outputs kinds of their own; split packed ones."""
    context = torch.zeros(builder.num_nodes, dtype=torch.bool, device="cpu")
    for group in builder.groups:
        if group.kind == "context":
            context[group.start : group.start + group.size] = True
    for block in blocks:
        if block.kind == "linear weight" and bool(context[block.source].all()):
            nodes = block.target.reshape(-1)
            duty[nodes[duty[nodes] == 0]] = DUTIES.index("output")
    named = []
    for block in blocks:
        named += _by_duty(block, duty) if block.kind.startswith("linear ") else [block]
    return named


def _by_duty(block: EdgeBlock, duty: Tensor) -> list[EdgeBlock]:
    along = pattern(block.target)
    duties = duty[block.target]
    values = duties.unique()
    if values.numel() == 1:
        return [_named(block, int(values[0]))]
    if len(along) != 1 or block.elements is None or block.elements.listed is not None:
        return [block]
    (dim,) = along
    line = duties.reshape(-1)
    starts = [0, *(int(i) + 1 for i in (line[1:] != line[:-1]).nonzero()), line.numel()]
    period = _period(starts, line)
    if period:
        wide = _reshaped(block, dim, period)
        return [
            _named(_narrowed(wide, dim + 1, a, b), int(line[a])) for a, b in pairwise(period)
        ]
    if len(starts) - 1 > MOST_PARTS:
        return [block]
    return [_named(_narrowed(block, dim, a, b), int(line[a])) for a, b in pairwise(starts)]


def _period(starts: list[int], line: Tensor) -> list[int]:
    """Boundaries within one round if duties repeat in equal rounds (q, k, v packed per head)."""
    for parts in (2, 3):
        if len(starts) - 1 > parts and (len(starts) - 1) % parts == 0:
            length = starts[parts]
            rounds = line.numel() // length
            if length * rounds == line.numel() and bool(
                (line.view(rounds, length) == line[:length]).all()
            ):
                return starts[: parts + 1]
    return []


def _reshaped(block: EdgeBlock, dim: int, period: list[int]) -> EdgeBlock:
    assert block.elements is not None
    length = period[-1]
    cut = (block.shape[dim] // length, length)
    shape = (*block.shape[:dim], *cut, *block.shape[dim + 1 :])
    stride = block.elements.strides[dim]
    strides = (
        *block.elements.strides[:dim],
        stride * length,
        stride,
        *block.elements.strides[dim + 1 :],
    )

    def reshape(end: Tensor) -> Tensor:
        inner = cut if end.size(dim) > 1 else (1, 1)
        return end.reshape(*end.shape[:dim], *inner, *end.shape[dim + 1 :])

    return replace(
        block,
        shape=shape,
        source=reshape(block.source),
        target=reshape(block.target),
        elements=Elements(shape, block.elements.offset, strides),
        positions=tuple(p + (p > dim) for p in block.positions),
    )


def _narrowed(block: EdgeBlock, dim: int, start: int, stop: int) -> EdgeBlock:
    assert block.elements is not None
    shape = tuple(stop - start if d == dim else n for d, n in enumerate(block.shape))
    offset = block.elements.offset + start * block.elements.strides[dim]

    def narrow(end: Tensor) -> Tensor:
        return end.narrow(dim, start, stop - start) if end.size(dim) > 1 else end

    return replace(
        block,
        shape=shape,
        source=narrow(block.source),
        target=narrow(block.target),
        elements=Elements(shape, offset, block.elements.strides),
    )


def _named(block: EdgeBlock, duty: int) -> EdgeBlock:
    if not duty:
        return block
    return replace(block, kind=block.kind.replace("linear", DUTIES[duty]))
