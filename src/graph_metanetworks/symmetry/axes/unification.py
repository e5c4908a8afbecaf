"""Unify dimensions: demand that they are permuted by the same permutation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from graph_metanetworks.symmetry.axes.axis import (
    Axis,
    Cases,
    Concat,
    Dim,
    Product,
    boundaries,
    find,
    leaves,
    parents,
    parts_of,
    pin,
    variables,
)
from graph_metanetworks.symmetry.axes.cutting import refine_cases, split_concat, split_product


def unify(first: Iterable[Axis], second: Iterable[Axis], reason: str) -> None:
    """Demand that two dimensions of equal size are permuted by the same permutation."""
    left, right = leaves(first), leaves(second)
    everything = left + right
    while left and right:
        left, right = leaves(left), leaves(right)
        a, b = left[0], right[0]
        if a.size == b.size:
            _merge(left.pop(0), right.pop(0), reason)
            continue
        if a.size < b.size:
            left, right, a, b = right, left, b, a
        if a.size % b.size or not split_product(a, b.size):
            pin(everything, f"{reason}: dimensions that do not align")
            return


def unify_dims(columns: Iterable[Sequence[Dim]], reason: str) -> None:
    """Unify each column of dimensions, independent ones first, so that the others find the same parents."""

    def dependent(column: Sequence[Dim]) -> bool:
        return any(parents(axis) for dim in column for axis in leaves(dim) if not axis.form)

    for column in sorted(columns, key=dependent):
        for other in column[1:]:
            unify(column[0], other, reason)


def _merge(a: Axis, b: Axis, reason: str) -> None:
    a, b = find(a), find(b)
    if a is b:
        return
    if isinstance(a.form, Product) or isinstance(b.form, Product):
        unify([a], [b], reason)
        return
    if a.pinned or b.pinned:
        pin([a], b.reason or reason)
        pin([b], a.reason or reason)
    if a.form is None and b.form is not None:
        a, b = b, a
    if isinstance(a.form, Cases) and b in set(variables([a])):  # equal to one of its own cases, hence to all
        collapse(a, reason)
        unify([a], [b], reason)
        return
    if b.form is None:
        if a.form is None:
            a.generic = a.generic and b.generic
            a.depends = a.depends | b.depends
        b.same_as = a
        return
    _merge_forms(a, b, reason)


def _merge_forms(a: Axis, b: Axis, reason: str) -> None:
    if isinstance(a.form, Cases) and isinstance(b.form, Cases):
        if leaves(a.form.over) != leaves(b.form.over):
            collapse(a, reason)
            collapse(b, reason)
            unify([a], [b], reason)
            return
        refine_cases(a, boundaries(b.form.parts))
        refine_cases(b, boundaries(a.form.parts))
    else:
        split_concat(a, boundaries(parts_of(b)) if isinstance(b.form, Concat) else ())
        split_concat(b, boundaries(parts_of(a)))
    if boundaries(parts_of(a)) != boundaries(parts_of(b)):
        pin([a, b], f"{reason}: concatenations that do not align")
        return
    pairs = list(zip(parts_of(a), parts_of(b), strict=True))
    b.same_as = a
    for (_, x), (_, y) in pairs:
        unify(x, y, reason)


def collapse(axis: Axis, reason: str) -> None:
    """Give up the dependence of a `Cases` axis by unifying all its cases."""
    axis = find(axis)
    assert isinstance(axis.form, Cases)
    first, *others = [part for _, part in axis.form.parts]
    axis.form = Product(first)
    for other in others:
        unify(first, other, reason)
