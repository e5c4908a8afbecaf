"""Panels: stacked edge blocks of equal shape, and small blocks of any shape as one list of edges.

A batch is arranged into panels once. Every layer then works on whole panels, so the overhead of Python grows
with the number of different shapes, not with the number of blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import NamedTuple

import torch
from torch import Tensor

from graph_metanetworks.graph.batch import Batch, Stack
from graph_metanetworks.graph.parts import MAX_POSITIONS, EdgeBlock, block_position, compact_position
from graph_metanetworks.nn.vocabulary import Vocabulary

Region = tuple[slice, ...]
LONG_ROW = 1024  # contiguous edges: enough to read memory at full speed


class Use(NamedTuple):
    """One edge block of one network of the batch."""

    network: int
    block: int


@dataclass(frozen=True, eq=False)
class Panel:
    """Edges in the shape `[G, ...]`; every index tensor is broadcastable to it."""

    shape: tuple[int, ...]
    source: Tensor  # node numbers in the batch
    target: Tensor
    use: Tensor  # the index in `uses` of the block that an edge belongs to
    uses: tuple[Use, ...]
    values: Tensor  # [*shape, channels]
    position: Tensor | None  # broadcastable to [*shape, 3]

    @property
    def num_edges(self) -> int:
        return prod(self.shape)

    def blocks(self, batch: Batch) -> list[EdgeBlock]:
        """Return the block of each use."""
        return [batch.graphs[network].blocks[number] for network, number in self.uses]

    def kinds(self, vocabulary: Vocabulary, batch: Batch) -> list[int]:
        """Return the row of each use's edge kind."""
        found: dict[str, int] = {}
        for network, number in self.uses:
            kind = batch.graphs[network].blocks[number].kind
            if kind not in found:
                (found[kind],) = vocabulary.rows("edge_kinds", [kind], batch.names[network])
        return [found[batch.graphs[network].blocks[number].kind] for network, number in self.uses]

    def by_use(self, edges: Tensor) -> list[tuple[Use, Tensor]]:
        """Split results on the edges, `[*shape, k]`, into one list of edges `[n, k]` per use."""
        if self.use.shape == self.shape and len(self.shape) == 1:
            counts = self.use.bincount(minlength=len(self.uses)).tolist()
            return list(zip(self.uses, edges.split(counts), strict=True))
        return list(zip(self.uses, edges.flatten(1, -2), strict=True))


def rows(shape: tuple[int, ...], limit: int) -> Iterator[Region]:
    """Yield regions of at most `limit` edges that are contiguous in memory."""
    inner = prod(shape[1:])
    if inner <= limit or len(shape) == 1:
        step = max(1, limit // max(1, inner))
        for start in range(0, shape[0], step):
            yield (slice(start, start + step),)
        return
    for start in range(shape[0]):
        for rest in rows(shape[1:], limit):
            yield (slice(start, start + 1), *rest)


def tiles(shape: tuple[int, ...], limit: int) -> Iterator[Region]:
    """Yield regions of at most `limit` edges that touch few nodes.

    They are long in the last, contiguous dimension and about equally long in the others.
    """
    tile, outer = list(shape), len(shape) - 1
    budget = max(1, limit // min(shape[-1], LONG_ROW))
    for done, d in enumerate(sorted(range(outer), key=shape.__getitem__)):
        tile[d] = _part(shape[d], int(budget ** (1 / (outer - done))))
        budget //= tile[d]
    tile[-1] = _part(shape[-1], limit // prod(tile[:-1]))
    ranges = [range(0, length, step) for length, step in zip(shape, tile, strict=True)]
    for starts in product(*ranges):
        yield tuple(slice(start, start + step) for start, step in zip(starts, tile, strict=True))


def _part(length: int, longest: int) -> int:
    """Return the length of equal parts that are at most `longest`, without a small remainder."""
    parts = -(-length // max(1, longest))
    return -(-length // parts)


def cut(tensor: Tensor, region: Region) -> Tensor:
    """Return the part of a broadcastable tensor that belongs to a region."""
    for dim, part in enumerate(region):
        length = tensor.shape[dim]
        if length != 1:  # several calls of narrow are faster than one index with slices
            tensor = tensor.narrow(dim, part.start, min(part.stop, length) - part.start)
    return tensor


# ------------------------------------------------------------------ from a batch


def arrange(batch: Batch, *, list_below: int, stacked: bool = True) -> list[Panel]:
    """Arrange a batch into panels. Shapes with fewer than `list_below` edges in all share one list of edges.

    Without `stacked`, every block is its own panel and its values are a view of the weights.
    """
    shapes: dict[tuple, list[tuple[Stack, int]]] = {}
    for stack in batch.stacks:
        for number, block in enumerate(stack.graph.blocks):
            key = (block.shape, block.source.shape, block.target.shape, block.positions)
            if not stacked:
                key = (len(shapes),)
            shapes.setdefault(key, []).append((stack, number))
    panels, listed = [], []
    for uses in shapes.values():
        edges = sum(len(s.members) * s.graph.blocks[b].num_edges for s, b in uses)
        if edges < list_below:
            listed += uses
        else:
            panels.append(_stacked(batch, uses))
    if listed:
        panels.append(_listed(batch, listed))
    return panels


def _stacked(batch: Batch, uses: list[tuple[Stack, int]]) -> Panel:
    block = uses[0][0].graph.blocks[uses[0][1]]
    parts = [stack.block_values(number) for stack, number in uses]
    values = parts[0] if len(parts) == 1 else torch.cat(parts)
    ends = [
        torch.cat([_end(batch, stack, getattr(stack.graph.blocks[number], end)) for stack, number in uses])
        for end in ("source", "target")
    ]
    named = tuple(Use(member, number) for stack, number in uses for member in stack.members)
    return Panel(
        shape=tuple(values.shape[:-1]),
        source=ends[0].to(values.device),
        target=ends[1].to(values.device),
        use=torch.arange(len(named), device=values.device).view(-1, *(1 for _ in block.shape)),
        uses=named,
        values=values,
        position=compact_position(block)[None].to(values) if block.positions else None,
    )


def _listed(batch: Batch, uses: list[tuple[Stack, int]]) -> Panel:
    """Join blocks of any shape into one list of edges."""
    values, sources, targets, named, counts, positions = [], [], [], [], [], []
    for stack, number in uses:
        block, networks = stack.graph.blocks[number], len(stack.members)
        values.append(stack.block_values(number).reshape(networks * block.num_edges, -1))
        for ends, end in ((sources, block.source), (targets, block.target)):
            ends.append(_end(batch, stack, end).expand(networks, *block.shape).reshape(-1))
        positions.append(_listed_position(block).repeat(networks, 1))
        named += [Use(member, number) for member in stack.members]
        counts += [block.num_edges] * networks
    value = torch.cat(values)
    index = torch.arange(len(named)).repeat_interleave(torch.tensor(counts))
    return Panel(
        shape=(len(value),),
        source=torch.cat(sources).to(value.device),
        target=torch.cat(targets).to(value.device),
        use=index.to(value.device),
        uses=tuple(named),
        values=value,
        position=torch.cat(positions).to(value),
    )


def _listed_position(block: EdgeBlock) -> Tensor:
    return block_position(block) if block.positions else torch.zeros(block.num_edges, MAX_POSITIONS)


def _end(batch: Batch, stack: Stack, index: Tensor) -> Tensor:
    """Return the node numbers of a block in each network of a stack. [networks, *index.shape]"""
    starts = torch.tensor([batch.node_starts[member] for member in stack.members])
    return index[None] + starts.view(-1, *(1 for _ in index.shape))
