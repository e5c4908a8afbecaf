"""Cut a tensor into pieces in which every dimension is one axis, permuted as a whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch import Tensor

from graph_metanetworks.symmetry.axes import Axis, Dim, leaves, ordered_parents, parents, regions


@dataclass(frozen=True, eq=False)
class Piece:
    """A part of a tensor, with one axis for each of its dimensions."""

    value: Tensor
    axes: tuple[Axis, ...]

    def places(self, axis: Axis) -> list[int]:
        """Return the dimensions along which an axis lies; mostly one."""
        return [place for place, own in enumerate(self.axes) if own is axis]

    def outer(self, axis: Axis) -> list[int]:
        """Return the dimensions of the axes that an axis depends on, in order of creation."""
        return [self.axes.index(parent) for parent in ordered_parents(axis)]


def pieces(value: Tensor, dims: Sequence[Dim]) -> Iterator[Piece]:
    """Cut a tensor where concatenations and cases change; the pieces are views where strides allow."""
    axes = [axis for dim in dims for axis in leaves(dim)]
    value = value.reshape([axis.size for axis in axes])
    cut = regions(axes)
    if cut is None:
        yield Piece(value, tuple(axes))
        return
    where, parts = cut
    offset = 0
    for length, inner in parts:
        yield from pieces(value.narrow(where, offset, length), inner)
        offset += length


def is_free(axis: Axis) -> bool:
    """Return whether an axis of a piece is permuted."""
    return not axis.pinned and axis.size > 1


def free_parents(axis: Axis) -> list[Axis]:
    """Return the permuted axes that an axis depends on, outermost first: heads before groups of heads."""
    found = [parent for parent in ordered_parents(axis) if is_free(parent)]
    return sorted(found, key=lambda parent: sum(map(is_free, parents(parent))))
