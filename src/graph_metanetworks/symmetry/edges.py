"""Extend permutations of nodes to edges."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from graph_metanetworks.graph.parts import EdgeBlock, block_position, group_index
from graph_metanetworks.symmetry.axes import size

if TYPE_CHECKING:
    from graph_metanetworks.symmetry.automorphism import Automorphism
    from graph_metanetworks.symmetry.group import Symmetry
    from graph_metanetworks.symmetry.stacks import StackedAutomorphism

STRUCTURAL = -1  # the element of an edge without a weight


@dataclass(frozen=True)
class _ExchangeableEdges:
    """Edges that may be exchanged; element numbers count through all parameters."""

    number: NDArray[np.int64]  # index in the edge order
    source: NDArray[np.int64]
    target: NDArray[np.int64]
    position: NDArray[np.float32]  # [edges, 3]
    element: NDArray[np.int64]

    @property
    def is_told_by_elements(self) -> bool:
        """Whether each edge has an element of its own, which says where the edge goes."""
        return bool(self.element.min(initial=0) >= 0) and len(np.unique(self.element)) == len(self.element)

    def order(self, nodes: NDArray[np.int64], elements: NDArray[np.int64] | None) -> NDArray[np.int64]:
        """Sort the edges by what identifies them, after moving nodes and, if given, elements."""
        element = self.element if elements is None else np.where(self.element < 0, -1, elements[self.element])
        return np.lexsort((element, *self.position.T, nodes[self.target], nodes[self.source]))

    def ends(self, order: NDArray[np.int64], nodes: NDArray[np.int64]) -> NDArray:
        """Return sources, targets and positions in the given order."""
        columns = (nodes[self.source[order]], nodes[self.target[order]], *self.position[order].T)
        return np.stack(columns)


def edge_permutation(automorphism: Automorphism) -> Tensor:
    """Return where each edge goes: between the images of its ends, carrying its element along. [E]"""
    symmetry = automorphism.symmetry
    nodes, elements = automorphism.nodes.numpy(), _moved_elements(automorphism)
    still = np.arange(symmetry.num_nodes)
    target = np.empty(sum(block.num_edges for block in symmetry.blocks), dtype=np.int64)
    for edges in _exchangeable(symmetry, by_parameter=True):
        before, after = edges.order(nodes, elements), edges.order(still, None)
        target[edges.number[before]] = edges.number[after]
    return torch.from_numpy(target)


def edge_permutations(permutations: StackedAutomorphism) -> Tensor:
    """Return where each edge of each network of a stack goes. [networks, E]"""
    symmetry = permutations.symmetry
    nodes, elements = permutations.nodes.numpy(), _stacked_elements(permutations)
    still = np.arange(symmetry.num_nodes)
    target = np.empty((len(permutations), sum(block.num_edges for block in symmetry.blocks)), dtype=np.int64)
    for edges in _exchangeable(symmetry, by_parameter=True):
        if edges.is_told_by_elements:
            edge_of = np.empty(elements.shape[1], dtype=np.int64)
            edge_of[edges.element] = edges.number
            target[:, edges.number] = edge_of[elements[:, edges.element]]
            continue
        after = edges.order(still, None)
        for row, moved_nodes, moved_elements in zip(target, nodes, elements, strict=True):
            row[edges.number[edges.order(moved_nodes, moved_elements)]] = edges.number[after]
    return torch.from_numpy(target)


def is_automorphism(symmetry: Symmetry, permutation: Tensor) -> bool:
    """See `Symmetry.is_automorphism`."""
    nodes = permutation.cpu().numpy()
    still = np.arange(symmetry.num_nodes)
    if not np.array_equal(np.sort(nodes), still):
        return False
    features = np.array(_node_features(symmetry), dtype=object)
    if not bool((features[nodes] == features).all()):
        return False
    images = {STRUCTURAL: STRUCTURAL}
    for edges in _exchangeable(symmetry, by_parameter=False):
        before, after = edges.order(nodes, None), edges.order(still, None)
        if not np.array_equal(edges.ends(before, nodes), edges.ends(after, still)):
            return False
        for ours, theirs in zip(edges.element[before].tolist(), edges.element[after].tolist(), strict=True):
            if images.setdefault(ours, theirs) != theirs:
                return False
    return len(set(images.values())) == len(images)


def _node_features(symmetry: Symmetry) -> list[tuple]:
    return [
        (group.kind, group.depth, group.activation, index)
        for group in symmetry.groups
        for index in group_index(group).tolist()
    ]


def _moved_elements(automorphism: Automorphism) -> NDArray[np.int64]:
    """Return the image of every element of every parameter."""
    parts, start = [], 0
    for dims in automorphism.symmetry.parameters.values():
        shape = [size(dim) for dim in dims]
        numbers = torch.arange(torch.Size(shape).numel()).view(shape)
        moved = automorphism.permute(numbers, dims).reshape(-1)  # moved[j] went to j
        image = torch.empty_like(moved)
        image[moved] = numbers.reshape(-1)
        parts.append(image.numpy() + start)
        start += numbers.numel()
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)


def _stacked_elements(permutations: StackedAutomorphism) -> NDArray[np.int64]:
    """Return the image of every element of every parameter, for each network. [networks, elements]"""
    parts, start = [np.empty((len(permutations), 0), dtype=np.int64)], 0
    for name in permutations.symmetry.parameters:
        moved = permutations.elements(name).numpy()
        parts.append(moved + start)
        start += moved.shape[1]
    return np.concatenate(parts, axis=1)


def _exchangeable(symmetry: Symmetry, *, by_parameter: bool) -> Iterable[_ExchangeableEdges]:
    """Return edges by kind, and by parameter too if elements move only within their parameter."""
    first = {}
    start = 0
    for name, dims in symmetry.parameters.items():
        first[name] = start
        start += torch.Size([size(dim) for dim in dims]).numel()
    found: dict[tuple, list[tuple[int, EdgeBlock]]] = defaultdict(list)
    start = 0
    for block in symmetry.blocks:
        found[block.kind, block.parameter if by_parameter else ""].append((start, block))
        start += block.num_edges
    return [_collected(blocks, first) for blocks in found.values()]


def _collected(blocks: Sequence[tuple[int, EdgeBlock]], first: dict[str, int]) -> _ExchangeableEdges:
    def flat(end: Tensor, block: EdgeBlock) -> NDArray[np.int64]:
        return end.expand(block.shape).reshape(-1).numpy()

    def elements(block: EdgeBlock) -> NDArray[np.int64]:
        if block.parameter is None or block.elements is None:
            return np.full(block.num_edges, STRUCTURAL)
        return block.elements.index().reshape(-1).numpy() + first[block.parameter]

    return _ExchangeableEdges(
        np.concatenate([np.arange(start, start + block.num_edges) for start, block in blocks]),
        np.concatenate([flat(block.source, block) for _, block in blocks]),
        np.concatenate([flat(block.target, block) for _, block in blocks]),
        np.concatenate([block_position(block).numpy() for _, block in blocks]),
        np.concatenate([elements(block) for _, block in blocks]),
    )
