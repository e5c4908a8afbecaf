"""The parts of a parameter graph: node groups, edge blocks, parameters."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

import torch
from torch import Tensor

from graph_metanetworks.graph.elements import Elements

MAX_POSITIONS = 3  # columns of `edge_position`: depth, height, width of a kernel


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes made together by one operation, such as the 64 channels out of `layer1.conv1`."""

    name: str
    kind: str
    size: int
    start: int
    depth: int  # longest path from an input
    activation: str = ""  # nonlinearity applied to these neurons
    indexed: bool = False  # input, output, vocabulary and position nodes have an index
    # size of each axis along which nodes lie, and whether it is pinned
    axes: tuple[tuple[int, bool], ...] = field(default=(), repr=False)

    @property
    def nodes(self) -> slice:
        """Where its nodes lie in the node order."""
        return slice(self.start, self.start + self.size)


@dataclass(frozen=True, slots=True, eq=False)
class EdgeBlock:
    """One use of one parameter tensor as edges: element `k` joins `source[k]` to `target[k]`.

    `source` and `target` are broadcastable to `shape`: a `Linear(4096, 4096)` has 16.7 million edges
    and 8,192 indices. A block without a parameter is structural: its edges carry the value 1.
    """

    kind: str
    shape: tuple[int, ...]
    source: Tensor
    target: Tensor
    parameter: str | None = None
    is_owner: bool = True
    elements: Elements | None = None
    positions: tuple[int, ...] = ()  # dimensions of `shape` that distinguish parallel edges or grid sites
    path: str = ""  # the module that uses the parameter

    @property
    def num_edges(self) -> int:
        """Edges in the block, one per element of `shape`."""
        return prod(self.shape)


@dataclass(frozen=True, slots=True)
class Parameter:
    """An entry of the state dict that lies on edges."""

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    tied: tuple[str, ...] = ()  # further names of the same tensor

    @property
    def numel(self) -> int:
        """Elements of the tensor."""
        return prod(self.shape)


def group_index(group: NodeGroup) -> Tensor:
    """Return the `node_index` of the nodes of one group. [size]"""
    if group.indexed:
        return torch.arange(group.size, device="cpu")
    if not any(fixed for _, fixed in group.axes):
        return torch.full((group.size,), -1, dtype=torch.int64, device="cpu")
    index = torch.zeros((1,), dtype=torch.int64, device="cpu")
    for size, fixed in group.axes:
        steps = torch.arange(size, device="cpu")
        index = (index[:, None] * size + steps if fixed else index[:, None].expand(-1, size)).reshape(-1)
    return index


def block_position(block: EdgeBlock) -> Tensor:
    """Return positions of a block's edges, `[edges, 3]`: the last kernel dimension in the last column."""
    return compact_position(block).expand(*block.shape, MAX_POSITIONS).reshape(-1, MAX_POSITIONS)


def compact_position(block: EdgeBlock) -> Tensor:
    """Like `block_position`, with size 1 along dimensions that are not positions, `[..., 3]`."""
    dims = list(block.positions)
    lengths = [block.shape[dim] for dim in dims]
    grids = []
    for dim, length in zip(dims, lengths, strict=True):
        shape = [-1 if i == dim else 1 for i in range(len(block.shape))]
        grids.append(torch.arange(length, device="cpu").view(shape))
    while len(grids) > MAX_POSITIONS:  # fold the leading dimensions into one
        grids[:2] = [grids[0] * lengths[1] + grids[1]]
        lengths[:2] = [lengths[0] * lengths[1]]
    shape = [length if i in block.positions else 1 for i, length in enumerate(block.shape)]
    position = torch.zeros((*shape, MAX_POSITIONS), device="cpu")
    for column, (grid, length) in enumerate(zip(grids, lengths, strict=True), -len(grids)):
        position[..., column] = (grid - (length - 1) / 2) / length
    return position
