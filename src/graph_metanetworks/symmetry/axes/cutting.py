"""Refine axes: cut a dimension into a product or a concatenation, take a part of it, reshape."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import prod

from graph_metanetworks.symmetry.axes.axis import (
    Axis,
    Cases,
    Concat,
    Dim,
    Product,
    find,
    fixed,
    is_pinned,
    leaves,
    ordered_parents,
    parents,
    parts_of,
    pin,
    size,
    variables,
)


def cut(dim: Iterable[Axis], outer_size: int) -> tuple[Dim, Dim]:
    """Split a dimension into an outer one of the given size and an inner one; pin if they do not align."""
    rest, outer, done = leaves(dim), [], 1
    whole = list(rest)
    total = size(rest)
    if outer_size == 1:
        return [], rest
    while done < outer_size:
        axis = rest.pop(0)
        if outer_size % (done * axis.size) == 0:
            outer.append(axis)
            done *= axis.size
            continue
        need, uneven = divmod(outer_size, done)
        if not uneven and axis.size % need == 0 and split_product(axis, need):
            rest = leaves([axis]) + rest
            continue
        reason = "a reshape across channels"
        pin(whole, reason)
        return fixed(outer_size, reason), fixed(total // outer_size, reason)
    return outer, rest


def split_product(axis: Axis, outer_size: int) -> bool:
    """Refine an axis to outer x inner; return False if a concatenation does not allow it."""
    axis = find(axis)
    inner_size = axis.size // outer_size
    if axis.form is None:
        if axis.pinned:
            factors = fixed(outer_size, axis.reason) + fixed(inner_size, axis.reason)
        else:
            outer = Axis(outer_size, generic=axis.generic, depends=axis.depends, reason=axis.reason)
            inner = Axis(
                inner_size,
                generic=axis.generic,
                depends=axis.depends | {outer},
                reason=axis.reason,
            )
            factors = [outer, inner]
        axis.form = Product(factors)
        return True
    if isinstance(axis.form, Cases):
        halves = [(length, cut(part, outer_size)) for length, part in axis.form.parts]
        outer_parts = [(length, outer) for length, (outer, _) in halves]
        inner_parts = [(length, inner) for length, (_, inner) in halves]
        over = axis.form.over
        axis.form = Product(
            [
                Axis(outer_size, form=Cases(over, outer_parts), pinned=axis.pinned),
                Axis(inner_size, form=Cases(over, inner_parts), pinned=axis.pinned),
            ]
        )
        return True
    parts = parts_of(axis)
    if any(length % inner_size for length, _ in parts):
        return False
    outer_parts, inner_parts = [], []
    for length, part in parts:
        outer_part, inner_part = cut(part, length // inner_size)
        outer_parts.append((length // inner_size, outer_part))
        inner_parts.append((length // inner_size, inner_part))
    outer = Axis(outer_size, form=Concat(outer_parts), pinned=axis.pinned)
    inner = Axis(inner_size, form=Cases([outer], inner_parts), pinned=axis.pinned)
    axis.form = Product([outer, inner])
    return True


def split_concat(axis: Axis, cuts: Iterable[int]) -> None:
    """Refine a leaf to a concatenation with (at least) the given boundaries."""
    axis = find(axis)
    cuts = {c for c in cuts if 0 < c < axis.size}
    if isinstance(axis.form, Cases):
        over, cases = axis.form.over, axis.form.parts
        parts = []
        for start, stop in pairwise([0, *sorted(cuts), axis.size]):
            inner = [(length, part_of(part, start, stop - start)) for length, part in cases]
            case = Axis(stop - start, form=Cases(over, inner), pinned=axis.pinned)
            parts.append((stop - start, [case] if stop - start > 1 else []))
        axis.form = Concat(parts)
        return
    old = axis.form.parts if isinstance(axis.form, Concat) else None
    if old is None:
        bounds = [0, *sorted(cuts), axis.size]
        axis.form = Concat([(b - a, _like(axis, b - a)) for a, b in pairwise(bounds)])
        return
    parts, offset = [], 0
    ranges = dict(axis.form.ranges) if isinstance(axis.form, Concat) else {}
    for length, part in old:
        inner = sorted(c - offset for c in cuts if offset < c < offset + length)
        if inner:
            ranges[offset, length] = part
        for start, stop in pairwise([0, *inner, length]):
            parts.append((stop - start, part_of(part, start, stop - start)))
        offset += length
    axis.form = Concat(parts, ranges)


def _like(axis: Axis, length: int) -> Dim:
    if length == 1:
        return []
    return [
        Axis(
            length,
            pinned=axis.pinned,
            generic=axis.generic,
            depends=axis.depends,
            reason=axis.reason,
        )
    ]


# ------------------------------------------------------------------ slicing


class Restriction:
    """An axis that was narrowed to a range, and the dimension that stands for it afterwards."""

    __slots__ = ("axis", "length", "part", "start")

    def __init__(self, axis: Axis, start: int, length: int, part: Dim):
        self.axis, self.start, self.length, self.part = axis, start, length, part


def part_of(dim: Iterable[Axis], start: int, length: int, log: list[Restriction] | None = None) -> Dim:
    """Return the dimension of `[start : start + length]`; append what was narrowed to `log`."""
    whole = leaves(dim)
    if length == size(whole):
        return whole
    first, inner = whole[0], whole[1:]
    step = size(inner)
    within = None
    if start % step == 0 and length % step == 0:
        first_start, first_length = start // step, length // step
    elif start // step == (start + length - 1) // step:
        first_start, first_length = start // step, 1
        within = start % step
    else:
        pin(whole, "a slice across channels")
        return fixed(length, "a slice across channels")
    narrowed = Restriction(first, first_start, first_length, _range(first, first_start, first_length))
    if log is not None:
        log.append(narrowed)
    inner = restrict(inner, [narrowed])
    if within is None:
        return narrowed.part + inner
    return part_of(inner, within, length, log)


def _range(axis: Axis, start: int, length: int) -> Dim:
    if length == axis.size:
        return [axis]
    if axis.pinned:
        return fixed(length, axis.reason)
    split_concat(axis, {start, start + length})
    form = find(axis).form
    assert isinstance(form, Concat)
    if (start, length) not in form.ranges:
        form.ranges[start, length] = _join(_covering(form.parts, start, length))
    return form.ranges[start, length]


def _covering(parts: Sequence[tuple[int, Dim]], start: int, length: int) -> list[tuple[int, Dim]]:
    found, offset = [], 0
    for part_length, part in parts:
        if start <= offset < start + length:
            found.append((part_length, part))
        offset += part_length
    return found


def _join(parts: list[tuple[int, Dim]]) -> Dim:
    if len(parts) == 1:
        return parts[0][1]
    total = sum(length for length, _ in parts)
    return [Axis(total, form=Concat(parts))]


def concatenate(parts: list[tuple[int, Dim]]) -> Dim:
    """Return the dimension of a concatenation of (length, dimension) parts."""
    parts = [(length, leaves(dim)) for length, dim in parts if length]
    if all(is_pinned(dim) for _, dim in parts):
        reasons = dict.fromkeys(axis.reason for _, dim in parts for axis in variables(dim))
        reason = " and ".join(filter(None, reasons)) or "a concatenation of single channels"
        return fixed(sum(length for length, _ in parts), reason)
    return _join(parts)


def restrict(dim: Iterable[Axis], log: Sequence[Restriction]) -> Dim:
    """Return what remains of a dimension when the axes it depends on are narrowed."""
    current = leaves(dim)
    for narrowed in log:
        current = [kept for axis in current for kept in leaves(_case(axis, narrowed))]
    return current


def _case(axis: Axis, narrowed: Restriction) -> Dim:
    if axis.pinned:
        return [axis]
    over = find(narrowed.axis)
    if axis.form is None:
        if over not in parents(axis):
            return [axis]
        split_cases(axis, over, {narrowed.start, narrowed.start + narrowed.length})
    if not isinstance(axis.form, Cases):
        return [axis]
    if leaves(axis.form.over) != [over]:
        parts = [(length, restrict(part, [narrowed])) for length, part in axis.form.parts]
        return [Axis(axis.size, form=Cases(axis.form.over, parts))]
    refine_cases(axis, {narrowed.start, narrowed.start + narrowed.length})
    parts = _covering(axis.form.parts, narrowed.start, narrowed.length)
    if len(parts) == 1:
        return parts[0][1]
    return [Axis(axis.size, form=Cases(narrowed.part, parts))]


def split_cases(axis: Axis, over: Axis, cuts: Iterable[int]) -> None:
    """Let a variable that depends on `over` act separately in each part of `over`."""
    axis, over = find(axis), find(over)
    bounds = [0, *sorted(c for c in cuts if 0 < c < over.size), over.size]
    others = [parent for parent in ordered_parents(axis) if parent is not over]
    pieces = []
    for start, stop in pairwise(bounds):
        narrowed = Restriction(over, start, stop - start, _range(over, start, stop - start))
        part = Axis(axis.size, depends=narrowed.part, generic=axis.generic, reason=axis.reason)
        pieces.append((narrowed, part))
    # first, because the others may depend on this axis in turn
    axis.form = Cases([over], [(narrowed.length, [part]) for narrowed, part in pieces])
    for narrowed, part in pieces:
        part.depends = part.depends.union(*(leaves(_case(other, narrowed)) for other in others))


def refine_cases(axis: Axis, cuts: Iterable[int]) -> None:
    """Split the cases of an axis at further boundaries of the axis they range over."""
    assert isinstance(axis.form, Cases)
    cuts = set(cuts)
    if len(axis.form.over) != 1:
        return
    over = find(axis.form.over[0])
    parts, offset = [], 0
    for length, part in axis.form.parts:
        inner = sorted(c - offset for c in cuts if offset < c < offset + length)
        if not inner:
            parts.append((length, part))
        else:
            whole = _range(over, offset, length)
            for start, stop in pairwise([0, *inner, length]):
                log: list[Restriction] = []
                part_of(whole, start, stop - start, log)
                parts.append((stop - start, restrict(part, log)))
        offset += length
    axis.form = Cases(axis.form.over, parts)


def narrow(dims: Sequence[Dim], index: int, start: int, length: int) -> list[Dim]:
    """Return the dimensions of a tensor sliced to `[start : start + length]` along dimension `index`."""
    whole = leaves(dims[index])
    if length == size(whole):
        return list(dims)
    if length == 0:
        return [fixed(0) if i == index else dim for i, dim in enumerate(dims)]
    log: list[Restriction] = []
    part = part_of(whole, start, length, log)
    return [part if i == index else restrict(dim, log) for i, dim in enumerate(dims)]


# ------------------------------------------------------------------ reshaping


def reshape(dims: Sequence[Dim], shape: Sequence[int]) -> list[Dim]:
    """Return the dimensions of a tensor viewed with another shape."""
    if prod(size(leaves(dim)) for dim in dims) == 0:
        return _reshape_empty(dims, shape)
    rest = [axis for dim in dims for axis in leaves(dim)]
    result = []
    for length in shape:
        outer, rest = cut(rest, length)
        result.append(outer)
    return result


def _reshape_empty(dims: Sequence[Dim], shape: Sequence[int]) -> list[Dim]:
    old, new, kept = list(dims), list(shape), []
    while old and new and size(leaves(old[-1])) == new[-1]:
        kept.insert(0, old.pop())
        new.pop()
    for dim in old:
        pin(dim, "a view of an empty tensor")
    return [fixed(length, "a view of an empty tensor") for length in new] + kept
