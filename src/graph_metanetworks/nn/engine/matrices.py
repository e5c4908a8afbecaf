"""Edge blocks as stacks of matrices, for blocks that multiply node states by weights.

Letters: `G` matrices, `T` targets (rows), `S` sources (columns), `K` taps, `C` channels. Taps are parallel
edges between two nodes: places of a kernel, flattened positions, elements of a basis.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from graph_metanetworks.graph.batch import Batch, Stack
from graph_metanetworks.graph.parameter_graph import ParameterGraph
from graph_metanetworks.graph.parts import MAX_POSITIONS, EdgeBlock, block_position, compact_position
from graph_metanetworks.nn.vocabulary import Vocabulary


@dataclass(frozen=True, eq=False)
class Layout:
    """Which dimensions of an edge block are matrices, rows, columns and taps."""

    block: EdgeBlock
    together: tuple[int, ...]  # source and target vary: a matrix for each
    rows: tuple[int, ...]  # only the target varies
    columns: tuple[int, ...]  # only the source varies
    taps: tuple[int, ...]  # neither varies

    @staticmethod
    def of(block: EdgeBlock) -> Layout:
        parts: dict[tuple[bool, bool], list[int]] = {}
        for dim in range(len(block.shape)):
            varies = (block.source.shape[dim] != 1, block.target.shape[dim] != 1)
            parts.setdefault(varies, []).append(dim)
        kinds = ((True, True), (False, True), (True, False), (False, False))
        return Layout(block, *(tuple(parts.get(kind, ())) for kind in kinds))

    @property
    def order(self) -> tuple[int, ...]:
        return (*self.together, *self.rows, *self.columns, *self.taps)

    @cached_property
    def shape(self) -> tuple[int, int, int, int]:
        """Matrices, rows, columns, taps."""
        parts = (self.together, self.rows, self.columns, self.taps)
        matrices, rows, columns, taps = (prod(self.block.shape[d] for d in part) for part in parts)
        return matrices, rows, columns, taps

    @cached_property
    def key(self) -> tuple:
        """Equal for blocks whose matrices can be stacked."""
        taps = tuple((self.block.shape[d], d in self.block.positions) for d in self.taps)
        return (self.block.kind, self.block.parameter is None, self.ratio, *self.shape[1:3], taps)

    @cached_property
    def ratio(self) -> float:
        """Sources per target, the ratio of widths."""
        if self.block.parameter is None:
            return self.shape[2] / self.shape[1]
        return self.sources.unique().numel() / max(1, self.targets.unique().numel())

    @cached_property
    def position(self) -> Tensor | None:
        """The position of each tap, offset from the centre. [K, 3]"""
        dims = tuple(d for d in self.block.positions if d in self.taps)
        if self.shape[3] == 1 or not dims:
            return None
        shape = [length if d in self.taps else 1 for d, length in enumerate(self.block.shape)]
        position = compact_position(replace(self.block, positions=dims)).expand(*shape, MAX_POSITIONS)
        return position.permute(*self.order, -1).reshape(-1, MAX_POSITIONS)

    def edge_position(self) -> Tensor:
        """Return the position of the tap of each edge, in the order of the block. [edges, 3]"""
        dims = tuple(d for d in self.block.positions if d in self.taps)
        return block_position(replace(self.block, positions=dims))

    @cached_property
    def sources(self) -> Tensor:  # [matrices, columns]
        return self._ends(self.block.source)

    @cached_property
    def targets(self) -> Tensor:  # [matrices, rows]
        return self._ends(self.block.target)

    def _ends(self, end: Tensor) -> Tensor:
        return end.permute(self.order).reshape(self.shape[0], -1)

    def values(self, stack: Stack, number: int) -> Tensor:
        """Return the weights of every network of a stack, a view where strides allow. [G, T, S, K, C]"""
        values = stack.block_values(number)  # [networks, *shape, C]
        values = values.permute(0, *(d + 1 for d in self.order), -1)
        matrices, *shape = self.shape
        return values.reshape(len(stack.members) * matrices, *shape, values.shape[-1])


@dataclass(frozen=True, eq=False)
class MatrixPanel:
    """Edge blocks of one kind and shape from any networks of a batch; structural edges have no values."""

    values: Tensor | None  # [G, T, S, K, C]
    source: Tensor  # [G, S] node numbers in the batch
    target: Tensor  # [G, T]
    kind: int  # row of a vocabulary
    taps: int
    position: Tensor | None  # [K, 3]
    ratio: float  # sources per target

    @property
    def shape(self) -> tuple[int, int, int]:
        """Matrices, targets, sources."""
        return (*self.target.shape, self.source.shape[1])  # type: ignore[return-value]

    @property
    def fan_in(self) -> int:
        """Weights of each row."""
        return self.source.shape[1] * self.taps


@dataclass(frozen=True, eq=False)
class BlockLayouts:
    """The layouts of a graph's blocks by number: unary ones apart."""

    matrices: dict[int, Layout]
    unary: dict[int, Layout]  # one number for each neuron: biases, norm scales, running means


_LAYOUTS: WeakKeyDictionary[ParameterGraph, BlockLayouts] = WeakKeyDictionary()


def block_layouts(graph: ParameterGraph) -> BlockLayouts:
    """Return the layouts of a graph's blocks, cached."""
    if graph not in _LAYOUTS:
        found = {number: Layout.of(block) for number, block in enumerate(graph.blocks)}
        unary = {number: layout for number, layout in found.items() if _is_unary(graph, layout)}
        matrices = {number: layout for number, layout in found.items() if number not in unary}
        _LAYOUTS[graph] = BlockLayouts(matrices, unary)
    return _LAYOUTS[graph]


def _is_unary(graph: ParameterGraph, layout: Layout) -> bool:
    block = layout.block
    if block.parameter is None or block.source.numel() != 1 or layout.shape[3] != 1:
        return False
    (source,) = graph.block_ends.sources(block)
    return source in graph.block_ends.parameter_nodes


def arrange_matrices(batch: Batch, vocabulary: Vocabulary, *, stacked: bool) -> list[MatrixPanel]:
    """Arrange the blocks of a batch that are not unary into panels: one per shape, or one per block."""
    found: dict[tuple, list[tuple[Stack, int]]] = {}
    for stack in batch.stacks:
        for number, layout in block_layouts(stack.graph).matrices.items():
            found.setdefault(layout.key if stacked else (len(found),), []).append((stack, number))
    return [_panel(batch, vocabulary, uses) for uses in found.values()]


def _panel(batch: Batch, vocabulary: Vocabulary, uses: list[tuple[Stack, int]]) -> MatrixPanel:
    sources, targets, values = [], [], []
    for stack, number in uses:
        layout = block_layouts(stack.graph).matrices[number]
        starts = torch.tensor([batch.node_starts[member] for member in stack.members])[:, None, None]
        sources.append((layout.sources + starts).flatten(0, 1))
        targets.append((layout.targets + starts).flatten(0, 1))
        if layout.block.parameter is not None:
            values.append(layout.values(stack, number))
    stack, number = uses[0]
    first = block_layouts(stack.graph).matrices[number]
    (kind,) = vocabulary.rows("edge_kinds", [first.block.kind], batch.names[stack.members[0]])
    device = batch.device
    return MatrixPanel(
        values=_joined(values) if values else None,
        source=torch.cat(sources).to(device),
        target=torch.cat(targets).to(device),
        kind=kind,
        taps=first.shape[3],
        position=None if first.position is None else first.position.to(device, batch.dtype),
        ratio=first.ratio,
    )


def _joined(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)  # one part may be mapped from a file
