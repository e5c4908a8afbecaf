"""Subsets of the units along each axis, and what is left of a tensor when only those are kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from graph_metanetworks.symmetry.automorphism import Automorphism
from graph_metanetworks.symmetry.axes import (
    Axis,
    Cases,
    Dim,
    leaves,
    ordered_parents,
    parents,
    parts_of,
    variables,
)
from graph_metanetworks.symmetry.pieces import pieces


class Ragged(ValueError):
    """Parts of one dimension would get different sizes."""


@dataclass(frozen=True, eq=False)
class Subset:
    """The units that are kept of some axes; other axes are kept whole.

    `kept` has a boolean table for each axis, `[*sizes of the axes it depends on, size]`: the dimensions that
    are kept may differ from head to head, but not their number.
    """

    kept: Mapping[Axis, Tensor]

    @cached_property
    def _counts(self) -> dict[Axis, int]:
        counts = {}
        for axis, table in self.kept.items():
            numbers = table.sum(-1).reshape(-1).unique().tolist()
            if len(numbers) != 1:
                raise Ragged(f"{numbers} of {axis.size} units would be kept in different copies")
            counts[axis] = int(numbers[0])
        return counts

    # -------------------------------------------------------------- sizes

    def length(self, axis: Axis) -> int:
        """Return how many indices of an axis are kept."""
        if axis.pinned:
            return axis.size
        if axis.form is None:
            return self._counts.get(axis, axis.size)
        lengths = [self.size(part) for _, part in parts_of(axis)]
        if isinstance(axis.form, Cases):
            if len(set(lengths)) != 1:
                raise Ragged(f"parts of one tensor would have {sorted(set(lengths))} units")
            return lengths[0]
        return sum(lengths)

    def size(self, dim: Dim) -> int:
        """Return the size of what is kept of a dimension."""
        total = 1
        for axis in leaves(dim):
            total *= self.length(axis)
        return total

    def shape(self, dims: Sequence[Dim]) -> tuple[int, ...]:
        return tuple(map(self.size, dims))

    def cuts(self, dims: Sequence[Dim]) -> bool:
        """Return whether a tensor loses anything."""
        return any(axis in self.kept for dim in dims for axis in variables(dim))

    def outer_size(self, dim: Dim, count: int) -> int | None:
        """Return what is left of the leading part of a dimension, of size `count`; None if there is none."""
        before, after = 1, 1
        for axis in leaves(dim):
            if before == count:
                return after
            before, after = before * axis.size, after * self.length(axis)
        return after if before == count else None

    # -------------------------------------------------------------- tensors

    def mask(self, dims: Sequence[Dim]) -> Tensor:
        """Return which elements of a tensor are kept."""
        axes = [axis for dim in dims for axis in leaves(dim)]
        mask = torch.ones([axis.size for axis in axes], dtype=torch.bool, device="cpu")
        for piece in pieces(mask, [[axis] for axis in axes]):
            for axis in dict.fromkeys(piece.axes):
                if axis not in self.kept:
                    continue
                for place in piece.places(axis):
                    piece.value.logical_and_(_laid(self.kept[axis], [*piece.outer(axis), place], piece.value))
        return mask.reshape([_size(dim) for dim in dims])

    def indices(self, dim: Dim) -> Tensor | None:
        """Return the indices that are kept along a dimension, or None if they vary along others."""
        return self.mask([dim]).nonzero().reshape(-1) if self._stands_alone(dim) else None

    def _stands_alone(self, dim: Dim) -> bool:
        """Return whether what is kept does not depend on another dimension."""
        own = set(leaves(dim))
        for axis in own:
            if (
                isinstance(axis.form, Cases)
                and not axis.pinned
                and not own.issuperset(leaves(axis.form.over))
            ):
                return False
        inside = own | set(variables(dim))
        return all(parents(axis) <= inside for axis in variables(dim) if axis in self.kept)

    def cut(self, value: Tensor, dims: Sequence[Dim]) -> Tensor:
        """Return what is kept of a tensor."""
        if not self.cuts(dims):
            return value
        if value.device.type == "meta":
            return value.new_empty(self.shape(dims))
        if all(self._stands_alone(dim) for dim in dims):
            for place, dim in enumerate(dims):
                if self.cuts([dim]):
                    indices = self.indices(dim)
                    assert indices is not None
                    value = value.index_select(place, indices.to(value.device))
            return value
        return value[self.mask(dims).to(value.device)].reshape(self.shape(dims))

    def prefix(self, dims: Sequence[Dim], place: int, index: int) -> int:
        """Return how many of the first `index` units along one dimension are kept."""
        dim = dims[place]
        if not self.cuts([dim]):
            return index
        if self._stands_alone(dim):
            return int(self.mask([dim])[:index].sum())
        mask = self.mask(dims).movedim(place, -1)
        mask = mask.reshape(-1, mask.shape[-1])
        counts = mask[mask.any(-1)][:, :index].sum(-1).unique().tolist()
        if len(counts) != 1:
            raise Ragged(f"{counts} units would be kept of the first {index}")
        return int(counts[0])

    def fitting(self, own: Dim, fresh: Dim) -> list[int]:
        """Return indices of what is kept of a constant that leave as many as another dimension keeps.

        The two dimensions differ in axes along which the constant has equal entries, so any of them will do.
        """
        indices, rest = [0], leaves(fresh)
        for old in leaves(own):
            matched, total = [], 1
            while rest and total < old.size:  # a constant may be used as a product of axes
                matched.append(rest.pop(0))
                total *= matched[-1].size
            inner, length = self._fitting_axis(old, matched), self.length(old)
            indices = [outer * length + index for outer in indices for index in inner]
        return indices

    def _fitting_axis(self, old: Axis, new: Dim) -> list[int]:
        if new == [old]:
            return list(range(self.length(old)))
        if old.form is None:
            if self.size(new) > self.length(old):
                raise Ragged(f"a constant has {self.length(old)} entries, but {self.size(new)} are needed")
            return list(range(self.size(new)))
        if len(new) != 1 or new[0].form is None:
            raise Ragged("the parts of a constant are used together")
        indices, start = [], 0
        for (_, part), (_, other) in zip(parts_of(old), parts_of(new[0]), strict=True):
            indices += [start + index for index in self.fitting(part, other)]
            start += self.size(part)
        return indices

    # -------------------------------------------------------------- the group

    def permuted(self, automorphism: Automorphism) -> Subset:
        """Return the images of the kept units."""
        moved = {}
        for axis, table in self.kept.items():
            where = automorphism.images([[parent] for parent in ordered_parents(axis)] + [[axis]])
            moved[axis] = torch.empty_like(table)
            moved[axis][tuple(where)] = table
        return Subset(moved)

    def restricted(self, axes: Sequence[Axis]) -> Subset:
        """Return the subset that keeps all units of other axes."""
        return Subset({axis: table for axis, table in self.kept.items() if axis in axes})


def _laid(table: Tensor, places: list[int], like: Tensor) -> Tensor:
    """Lay the dimensions of a table along given dimensions of a tensor."""
    order = sorted(range(len(places)), key=lambda i: places[i])
    shape = [1] * like.dim()
    for i in order:
        shape[places[i]] = table.shape[i]
    return table.permute(order).reshape(shape)


def _size(dim: Dim) -> int:
    total = 1
    for axis in leaves(dim):
        total *= axis.size
    return total
