"""Turn collected edges into the blocks of a parameter graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

import torch
from torch import Tensor

from graph_metanetworks.graph.elements import Elements
from graph_metanetworks.graph.parts import EdgeBlock
from graph_metanetworks.symmetry.axes import is_pinned
from graph_metanetworks.trace.finish.coverage import Coverage
from graph_metanetworks.trace.interpret.builder import DraftEdges, ParameterGraphBuilder
from graph_metanetworks.trace.interpret.labels import canonical, pattern


def make_blocks(builder: ParameterGraphBuilder, shapes: Mapping[str, tuple[int, ...]]) -> list[EdgeBlock]:
    """Build the blocks in order.

    The first use of an element owns it; uses on constants (a zero state) come last.
    """

    def on_constants(edges: DraftEdges) -> bool:
        return all(group.kind == "constant" for group in builder.groups_in(edges.source))

    covered = {name: Coverage(prod(shape)) for name, shape in shapes.items()}
    blocks: dict[int, list[EdgeBlock]] = {}
    for index, edges in sorted(enumerate(builder.edges), key=lambda item: on_constants(item[1])):
        if edges.view is None:
            blocks[index] = [_structural(edges)]
            continue
        block = _parameter_block(edges, shapes[edges.view.parameter])
        blocks[index] = _with_owner(block, covered[edges.view.parameter])
    return [block for index in sorted(blocks) for block in blocks[index]]


def _structural(edges: DraftEdges) -> EdgeBlock:
    return EdgeBlock(edges.kind, tuple(edges.source.shape), edges.source, edges.target, path=edges.path)


def _parameter_block(edges: DraftEdges, shape: tuple[int, ...]) -> EdgeBlock:
    """Build a block in the parameter's element order, with index tensors of size 1 where nothing varies."""
    view = edges.view
    assert view is not None
    label = view.label
    if label.device.type == "meta" and _is_one_to_one(label):
        order = sorted((d for d in range(label.dim()) if label.size(d) > 1), key=lambda d: -label.stride(d))
        lengths = tuple(label.size(d) for d in order)
        strides = tuple(label.stride(d) for d in order)
        elements = Elements(lengths, int(label.storage_offset()), strides)
        source, target = (
            end.expand(label.shape).permute(order + _others(order, label)).reshape(lengths)
            for end in (edges.source, edges.target)
        )
        places = [
            i
            for i, d in enumerate(order)
            if d in edges.sites and (not edges.dims or is_pinned(edges.dims[d]))
        ]
    else:
        elements, source, target = _listed(edges, view.dense(), shape)
        places = []
    source, target = canonical(source), canonical(target)
    block = EdgeBlock(
        edges.kind,
        elements.shape,
        source,
        target,
        parameter=view.parameter,
        elements=elements,
        positions=tuple(places),
        path=edges.path,
    )
    return _with_positions(_split_repeats(block))


def _others(order: list[int], label: Tensor) -> list[int]:
    return [d for d in range(label.dim()) if d not in order]


def _is_one_to_one(label: Tensor) -> bool:
    """Return whether a strided label shows each element at most once."""
    reach = 0
    for stride, length in sorted((label.stride(d), label.size(d)) for d in pattern(label)):
        if stride <= reach:
            return False
        reach += stride * (length - 1)
    return all(n == 1 or d in pattern(label) for d, n in enumerate(label.shape))


def _listed(edges: DraftEdges, label: Tensor, shape: tuple[int, ...]) -> tuple[Elements, Tensor, Tensor]:
    """List each element of a view that no strides describe, at its first occurrence."""
    flat = label.reshape(-1)
    source, target = (e.expand(label.shape).reshape(-1) for e in (edges.source, edges.target))
    keep = flat >= 0
    flat, source, target = flat[keep], source[keep], target[keep]
    order = torch.argsort(flat, stable=True)
    flat, source, target = flat[order], source[order], target[order]
    first = torch.ones_like(flat, dtype=torch.bool)
    first[1:] = flat[1:] != flat[:-1]
    flat, source, target = flat[first], source[first], target[first]
    if flat.numel() == prod(shape):
        return Elements.all_of(shape), source.view(shape), target.view(shape)
    return Elements((flat.numel(),), listed=flat), source, target


def _split_repeats(block: EdgeBlock) -> EdgeBlock:
    """Split a dimension along which nodes repeat (flattened places) into channels and positions."""
    assert block.elements is not None
    if block.elements.listed is not None:
        return block
    for dim, length in enumerate(block.shape):
        inner = _repeat_length(block, dim, length)
        if inner:
            stride = block.elements.strides[dim]
            cut = (length // inner, inner)
            shape = (*block.shape[:dim], *cut, *block.shape[dim + 1 :])
            strides = (
                *block.elements.strides[:dim],
                stride * inner,
                stride,
                *block.elements.strides[dim + 1 :],
            )
            source, target = (
                canonical(end.expand(block.shape).reshape(shape)) for end in (block.source, block.target)
            )
            places = tuple(p + (p > dim) for p in block.positions)
            elements = Elements(shape, block.elements.offset, strides)
            return _split_repeats(
                replace(
                    block,
                    shape=shape,
                    source=source,
                    target=target,
                    elements=elements,
                    positions=places,
                )
            )
    return block


def _repeat_length(block: EdgeBlock, dim: int, length: int) -> int:
    """Return the inner size if the nodes along `dim` repeat in runs or periodically, else 0."""
    ends = [end for end in (block.source, block.target) if dim in pattern(end)]
    if len(ends) != 1 or length < 4:
        return 0
    (end,) = ends
    if len(pattern(end)) != 1:
        return 0
    line = end[tuple(slice(None) if d == dim else 0 for d in range(end.dim()))]
    changes = (line[1:] != line[:-1]).nonzero()
    run = int(changes[0]) + 1
    if run > 1 and length % run == 0 and bool((line.view(-1, run) == line[::run, None]).all()):
        return run
    again = (line[1:] == line[0]).nonzero()
    if again.numel():
        period = int(again[0]) + 1
        if length % period == 0 and bool((line.view(-1, period) == line[:period]).all()):
            return period
    return 0


def _with_positions(block: EdgeBlock) -> EdgeBlock:
    """Mark dimensions that neither end distinguishes as positions.

    Shrink ends to size 1 where they are constant.
    """
    ends = pattern(block.source) | pattern(block.target)
    parallel = {d for d, n in enumerate(block.shape) if n > 1 and d not in ends}
    source, target = (
        end[tuple(slice(None) if d in pattern(end) else slice(0, 1) for d in range(end.dim()))]
        for end in (block.source, block.target)
    )
    positions = tuple(sorted(parallel | set(block.positions)))
    return replace(block, source=source.contiguous(), target=target.contiguous(), positions=positions)


def _with_owner(block: EdgeBlock, covered: Coverage) -> list[EdgeBlock]:
    """Split a block into the owner of elements that have none yet and an alias of the rest."""
    assert block.elements is not None
    old = covered.add(block.elements)
    if old is None:
        return [block]
    if bool(old.all()):
        return [replace(block, is_owner=False)]
    index = block.elements.index().reshape(-1)
    return [
        _subset(block, index, ~old),
        replace(_subset(block, index, old), is_owner=False),
    ]


def _subset(block: EdgeBlock, index: Tensor, keep: Tensor) -> EdgeBlock:
    source, target = (end.expand(block.shape).reshape(-1)[keep] for end in (block.source, block.target))
    chosen = index[keep]
    shape = (int(chosen.numel()),)
    return replace(
        block,
        shape=shape,
        source=source,
        target=target,
        elements=Elements(shape, listed=chosen),
        positions=(),
    )
