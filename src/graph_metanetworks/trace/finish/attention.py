"""Decide which products are attention, and draw it as the options ask."""

from __future__ import annotations

import torch
from torch import Tensor

from graph_metanetworks.symmetry.axes import Dim, fixed, part_of, pin, unify
from graph_metanetworks.trace.finish.projections import spread_back
from graph_metanetworks.trace.interpret.builder import AttentionProduct, DraftGroup, ParameterGraphBuilder
from graph_metanetworks.trace.interpret.labels import compact, pattern


def forget_other_products(builder: ParameterGraphBuilder) -> None:
    """Rename products of activations that are not attention, such as those of hypernetworks."""
    others = [attention for attention in builder.attentions if not attention.confirmed]
    builder.attentions = [attention for attention in builder.attentions if attention.confirmed]
    for attention in others:
        attention.scores.kind = "product" if attention.scores.kind == "score" else attention.scores.kind
        attention.heads.kind = "sum" if attention.heads.kind == "head" else attention.heads.kind
    plain = {id(group) for attention in others for group in (attention.scores, attention.heads)}
    names = {"query": "left factor", "key": "right factor", "head": "residual"}
    for edges in builder.edges:
        structural = edges.view is None and edges.kind in names
        if structural and id(builder.group_of(int(edges.target[0]))) in plain:
            edges.kind = names[edges.kind]


def index_heads(builder: ParameterGraphBuilder) -> Tensor:
    """Merge the head nodes of each attention into one and pin the heads, as in the paper.

    Returns the head of each node, -1 for nodes outside attention. [N]
    """
    merged = torch.arange(builder.num_nodes, device="cpu")
    index = torch.zeros(builder.num_nodes, dtype=torch.int64, device="cpu")  # head + 1
    for attention in builder.attentions:
        heads = attention.heads
        pin(heads.dim, "heads distinguished by index")
        merged[heads.start : heads.start + heads.size] = heads.start
        for nodes, number in attention.head_of:
            index[nodes] = number + 1
    spread_back(builder, index)
    kept = _merge_nodes(builder, merged)
    _drop_idle_heads(builder)
    return index[kept] - 1


def _drop_idle_heads(builder: ParameterGraphBuilder) -> None:
    """Drop head nodes where queries, keys and values share nodes: the index of the head says it all.

    They stay if something else leads to them, such as position biases.
    """
    fed = {id(group) for edges in builder.edges for group in builder.groups_in(edges.target)}
    heads = {id(attention.heads) for attention in builder.attentions} - fed
    builder.edges = [
        edges
        for edges in builder.edges
        if edges.view is not None or id(builder.group_of(int(edges.source[0]))) not in heads
    ]


def share_middle(builder: ParameterGraphBuilder) -> list[str]:
    """Merge the query, key and value nodes of each attention, as in the paper.

    Returns notes on attentions where this cannot be done: they have fewer key than query heads, or what is
    added to their scores is computed from their queries.
    """
    notes = []
    merged = torch.arange(builder.num_nodes, device="cpu")
    for attention in builder.attentions:
        context = _context_of(builder, attention)
        others = _aligned(builder, attention, context) if context else None
        if context is None or others is None:
            notes.append(
                f"attention in '{attention.heads.name}': queries, keys and values differ in number, so "
                "they keep nodes of their own"
            )
            continue
        if _bias_depends_on(builder, attention.heads, torch.cat(others)):
            notes.append(
                f"attention in '{attention.heads.name}': its position biases depend on queries or keys, so "
                "they keep nodes of their own"
            )
            continue
        unify(attention.scores.dim, context.dim, "shared attention nodes")
        for nodes in others:
            merged[nodes] = torch.arange(context.start, context.start + context.size, device="cpu")
    _merge_nodes(builder, merged)
    return notes


def _context_of(builder: ParameterGraphBuilder, attention: AttentionProduct) -> DraftGroup | None:
    """Return the nodes of an attention's result if it has exactly one."""
    if len(attention.values) != 1:
        return None
    value = int(attention.values[0].reshape(-1)[0])
    found = [
        builder.group_of(int(edges.target[0]))
        for edges in builder.edges
        if edges.kind == "value" and edges.view is None and bool((edges.source == value).any())
    ]
    return found[0] if len(found) == 1 else None


def _aligned(
    builder: ParameterGraphBuilder, attention: AttentionProduct, context: DraftGroup
) -> list[Tensor] | None:
    """Return scores, queries, keys and values in the order of the result, or None if they do not match."""
    scores = attention.scores
    aligned = [torch.arange(scores.start, scores.start + scores.size, device="cpu")]
    for edges in builder.edges:
        if edges.view is not None or edges.kind not in ("query", "key", "value"):
            continue
        if builder.group_of(int(edges.target[0])) in (scores, context):
            aligned.append(edges.source[edges.target.argsort()])
    one_to_one = all(nodes.numel() == context.size == nodes.unique().numel() for nodes in aligned)
    return aligned if one_to_one and len(aligned) == 4 else None


def _bias_depends_on(builder: ParameterGraphBuilder, heads: DraftGroup, nodes: Tensor) -> bool:
    """Return whether some of the nodes lead to what is added to the scores of these heads."""
    behind = torch.zeros(builder.num_nodes, dtype=torch.bool, device="cpu")
    for edges in reversed(builder.edges):  # edges into a node were made before those out of it
        to_heads = (
            edges.view is None and edges.kind == "residual" and heads in builder.groups_in(edges.target)
        )
        if to_heads or bool(behind[compact(edges.target, pattern(edges.target))].any()):
            behind[compact(edges.source, pattern(edges.source))] = True
    return bool(behind[nodes].any())


def _merge_nodes(builder: ParameterGraphBuilder, merged: Tensor) -> Tensor:
    """Replace nodes by those they were merged into and drop empty groups; return the nodes kept."""
    kept = merged.unique()
    number = torch.full((builder.num_nodes,), -1, dtype=torch.int64, device="cpu")
    number[kept] = torch.arange(kept.numel(), device="cpu")
    final = number[merged]
    groups = []
    for group in builder.groups:
        own = kept[(kept >= group.start) & (kept < group.start + group.size)]
        if not own.numel():
            continue
        if own.numel() < group.size:
            group.dim = _remaining_axes(group, own)
        group.start, group.size = int(number[own[0]]), int(own.numel())
        groups.append(group)
    for edges in builder.edges:
        edges.source, edges.target = final[edges.source], final[edges.target]
    _drop_loops(builder)
    for attention in builder.attentions:
        attention.queries, attention.keys = final[attention.queries], final[attention.keys]
        attention.values = [final[values] for values in attention.values]
        attention.head_of = [(final[nodes], index) for nodes, index in attention.head_of]
    for loose in builder.loose:
        loose.nearby = [(dim, final[nodes]) for dim, nodes in loose.nearby]
    builder.reset(groups, int(kept.numel()), final)
    return kept


def _remaining_axes(group: DraftGroup, own: Tensor) -> Dim:
    """Return the axes of a group after some of its nodes were merged away."""
    first, last = int(own[0]), int(own[-1])
    if last - first + 1 != own.numel():
        pin(group.dim, "nodes merged with others")
        return fixed(own.numel(), "nodes merged with others")
    return part_of(group.dim, first - group.start, own.numel())


def _drop_loops(builder: ParameterGraphBuilder) -> None:
    """Drop structural edges that merging turned into loops, duplicates, or detours through a head."""
    seen: set[tuple[str, bytes]] = set()
    gone = set()
    for edges in reversed(builder.edges):
        if edges.view is not None:
            continue
        both = torch.stack([edges.source, edges.target])
        both = both[:, both[0] != both[1]].unique(dim=1)
        edges.source, edges.target = both[0], both[1]
        forth, back = ((edges.kind, ends.unique(dim=1).numpy().tobytes()) for ends in (both, both.flip(0)))
        if not both.size(1) or forth in seen or back in seen:
            gone.add(id(edges))
        seen.add(forth)
    builder.edges = [edges for edges in builder.edges if id(edges) not in gone]
