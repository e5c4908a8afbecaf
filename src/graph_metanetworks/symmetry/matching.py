"""The best permutation along one axis, and within its heads, with all other axes held fixed.

Index letters: c fixed contexts (experts, ...), f heads or groups, n neurons, r what is summed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from graph_metanetworks.symmetry.axes import Axis, ordered_parents
from graph_metanetworks.symmetry.pieces import Piece, free_parents, is_free

Pair = tuple[Piece, Piece]  # the same piece of the reference and of the network being aligned
Context = dict[Axis, int]  # an index along each axis that another depends on


@dataclass(frozen=True, eq=False)
class Tree:
    """An axis and those within it: heads, and the dimensions of each head."""

    axis: Axis
    inner: tuple[Tree, ...]

    @property
    def axes(self) -> list[Axis]:
        return [self.axis, *(axis for tree in self.inner for axis in tree.axes)]

    @property
    def size(self) -> int:
        return sum(axis.size for axis in self.axes)


def trees(variables: Sequence[Axis]) -> list[Tree]:
    """Return the axes of a group, each below the innermost axis that it depends on."""
    outer = {axis: free_parents(axis) for axis in variables}

    def below(axis: Axis) -> Tree:
        return Tree(axis, tuple(below(v) for v in variables if outer[v] and outer[v][-1] is axis))

    return [below(axis) for axis in variables if not outer[axis]]


@dataclass(frozen=True, eq=False)
class Matching:
    """Tables of one tree: where each index goes, by the indices of the axes it depends on."""

    tree: Tree
    scores: dict[Axis, NDArray]  # [c, f, f, n, n]: gain if one index replaces another

    @staticmethod
    def of(tree: Tree, pairs: Iterable[Pair]) -> Matching:
        """Sum inner products over all pieces in which an axis of the tree occurs."""
        totals: dict[Axis, Tensor | float] = dict.fromkeys(tree.axes, 0.0)
        within = {own.axis: set(own.axes) - {own.axis} for own in _subtrees(tree)}
        for reference, other in pairs:
            for axis in totals:
                if within[axis] & set(reference.axes):  # counted where it is matched most finely
                    continue
                for place in reference.places(axis):
                    totals[axis] = totals[axis] + _inner_products(reference, other, place)
        return Matching(tree, {axis: _laid_out(total, axis) for axis, total in totals.items()})

    def tables(self) -> dict[Axis, Tensor]:
        """Return the assignment that gains most, for each fixed context separately."""
        found = {axis: still(axis) for axis in self.tree.axes}
        for context in _contexts(self.tree.axis, {}):
            self._write(found, self.tree, context, context)
        return found

    def _write(self, found: dict[Axis, Tensor], tree: Tree, source: Context, target: Context) -> None:
        """Fill in the tables for what goes from one context to another."""
        rows, columns = _assignment(self._gains(tree, source, target))
        here = tuple(source[parent] for parent in ordered_parents(tree.axis))
        found[tree.axis][here] = torch.from_numpy(columns)
        for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
            for inner in tree.inner:
                for more in _contexts(inner.axis, source):
                    self._write(
                        found, inner, source | more | {tree.axis: row}, target | more | {tree.axis: column}
                    )

    def _gains(self, tree: Tree, source: Context, target: Context) -> NDArray:
        """Return the gain of each pair of indices, with the best assignment within. [n, n]"""
        axis = tree.axis
        context, heads = _fixed_parents(axis), free_parents(axis)
        gains = self.scores[axis][_flat(context, source), _flat(heads, source), _flat(heads, target)]
        if not tree.inner:
            return gains
        gains = gains.copy()
        for row, column in product(range(axis.size), repeat=2):
            for inner in tree.inner:
                for more in _contexts(inner.axis, source):
                    own = self._gains(inner, source | more | {axis: row}, target | more | {axis: column})
                    gains[row, column] += own[_assignment(own)].sum()
        return gains


def _contexts(axis: Axis, given: Context) -> Iterator[Context]:
    """Yield every choice of indices along the fixed axes that an axis depends on, beyond those given."""
    fixed = [parent for parent in _fixed_parents(axis) if parent not in given]
    for index in product(*(range(parent.size) for parent in fixed)):
        yield dict(zip(fixed, index, strict=True))


def _subtrees(tree: Tree) -> Iterable[Tree]:
    yield tree
    for inner in tree.inner:
        yield from _subtrees(inner)


def _assignment(gains: NDArray) -> tuple[NDArray, NDArray]:
    return linear_sum_assignment(gains, maximize=True)


def _fixed_parents(axis: Axis) -> list[Axis]:
    return [parent for parent in ordered_parents(axis) if not is_free(parent)]


def _flat(axes: Sequence[Axis], context: Context) -> int:
    index = 0
    for axis in axes:
        index = index * axis.size + context[axis]
    return index


def _inner_products(reference: Piece, other: Piece, place: int) -> Tensor:
    """Return inner products of all slices of the other piece and the reference. [c, f n, f n]"""
    axis = reference.axes[place]
    fixed = [reference.axes.index(parent) for parent in _fixed_parents(axis)]
    free = [reference.axes.index(parent) for parent in free_parents(axis)]
    front = [*fixed, *free, place]
    rest = [dim for dim in range(len(reference.axes)) if dim not in front]
    contexts = prod(reference.axes[dim].size for dim in fixed)
    rows = prod(reference.axes[dim].size for dim in (*free, place))
    theirs, ours = (
        piece.value.permute(*front, *rest).reshape(contexts, rows, -1) for piece in (other, reference)
    )
    return theirs @ ours.transpose(1, 2)


def _laid_out(total: Tensor | float, axis: Axis) -> NDArray:
    contexts = prod(parent.size for parent in _fixed_parents(axis))
    heads = prod(parent.size for parent in free_parents(axis))
    if not isinstance(total, Tensor):
        return np.zeros((contexts, heads, heads, axis.size, axis.size))
    laid = total.view(contexts, heads, axis.size, heads, axis.size).transpose(2, 3)
    return laid.double().numpy()


def still(axis: Axis) -> Tensor:
    """Return the table that moves nothing along an axis."""
    shape = [parent.size for parent in ordered_parents(axis)]
    return torch.arange(axis.size, device="cpu").expand(*shape, axis.size).clone()
