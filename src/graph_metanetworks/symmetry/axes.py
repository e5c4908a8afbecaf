"""Axes: how the network's symmetry group acts on each dimension of each tensor.

A dimension is a row-major product of axes (`Dim`, a list; size-1 axes are dropped). An axis is a union-find
variable: the group permutes it freely until an operation demands less. It may be refined once, to

    Product     heads x head dimension;
    Concat      packed q, k, v; DenseNet: no element leaves its segment;
    Cases       an action of its own for each segment of another axis (the heads of q, k and v).

A *pinned* axis is not permuted at all. An axis may *depend* on others: the dimensions of each head are permuted
independently of the other heads'. Dependence is assumed whenever a dimension is split, and given up by `settle`
where some tensor contradicts it. A *generic* axis belongs to a tensor that is constant along it
(zeros, an expanded view): every use gets a fresh axis of its own, so that constants tie nothing together.

Every function here only shrinks the group. A demand that was met once stays met.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, count, pairwise
from math import prod

Dim = list["Axis"]
_numbers = count()  # creation order, which makes sampling reproducible


class Product:
    """The axis is the row-major product of `factors`."""

    __slots__ = ("factors",)

    def __init__(self, factors: Dim):
        self.factors = factors


class Concat:
    """The axis is the concatenation of `parts`, each a (length, dimension) pair."""

    __slots__ = ("parts",)

    def __init__(self, parts: list[tuple[int, Dim]]):
        self.parts = parts


class Cases:
    """Within each part of `over` (length, dimension) the axis acts as that part's dimension."""

    __slots__ = ("over", "parts")

    def __init__(self, over: Dim, parts: list[tuple[int, Dim]]):
        self.over = over
        self.parts = parts


class Axis:
    __slots__ = ("size", "same_as", "form", "pinned", "generic", "depends", "reason", "number")

    def __init__(
        self,
        size: int,
        *,
        form: Product | Concat | Cases | None = None,
        pinned: bool = False,
        generic: bool = False,
        depends: Iterable[Axis] = (),
        reason: str = "",
    ):
        self.size = int(size)
        self.same_as: Axis | None = None
        self.form = form
        self.pinned = pinned
        self.generic = generic
        self.depends = frozenset() if pinned else frozenset(depends)
        self.reason = reason
        self.number = next(_numbers)

    def __repr__(self) -> str:
        axis = find(self)
        form = type(axis.form).__name__.lower() if axis.form else "free"
        return f"<{axis.size} {'pinned' if axis.pinned else form}>"


def find(axis: Axis) -> Axis:
    while axis.same_as is not None:
        if axis.same_as.same_as is not None:
            axis.same_as = axis.same_as.same_as
        axis = axis.same_as
    return axis


def free(size: int, reason: str = "", *, generic: bool = False) -> Dim:
    return [] if size == 1 else [Axis(size, reason=reason, generic=generic)]


def fixed(size: int, reason: str = "") -> Dim:
    return [] if size == 1 else [Axis(size, pinned=True, reason=reason)]


def leaves(dim: Iterable[Axis]) -> Dim:
    """The axes of a dimension with products expanded: variables, concatenations and cases."""
    found: Dim = []
    for axis in dim:
        axis = find(axis)
        if isinstance(axis.form, Product):
            found += leaves(axis.form.factors)
        else:
            found.append(axis)
    return found


def size(dim: Iterable[Axis]) -> int:
    return prod(axis.size for axis in dim)


def variables(dim: Iterable[Axis]) -> Iterator[Axis]:
    """All variables of a dimension, inside concatenations and cases too."""
    for axis in leaves(dim):
        if axis.form is None:
            yield axis
        else:
            for _, part in _parts(axis):
                yield from variables(part)


def is_pinned(dim: Iterable[Axis]) -> bool:
    """Whether nothing is permuted along a dimension."""
    return all(axis.pinned or axis.size < 2 for axis in variables(dim))


def parents(axis: Axis) -> set[Axis]:
    """The axes on which a variable depends."""
    axis = find(axis)
    return set(leaves(axis.depends)) - {axis}


def _parts(axis: Axis) -> list[tuple[int, Dim]]:
    assert isinstance(axis.form, Concat | Cases)
    return axis.form.parts


def boundaries(parts: Sequence[tuple[int, Dim]]) -> set[int]:
    """The inner boundaries of a list of parts."""
    return set(list(accumulate(length for length, _ in parts))[:-1])


def pin(dim: Iterable[Axis], reason: str) -> None:
    for axis in leaves(dim):
        if axis.pinned:
            continue
        axis.pinned = True
        axis.reason = reason
        if axis.form is not None:
            for _, part in _parts(axis):
                pin(part, reason)


def instantiate(dims: Sequence[Dim]) -> list[Dim]:
    """The same dimensions with a fresh variable for every generic one."""
    if not any(axis.generic for dim in dims for axis in variables(dim)):
        return list(dims)
    fresh: dict[Axis, Axis] = {}

    def copy(dim: Iterable[Axis]) -> Dim:
        return [copy_axis(axis) for axis in leaves(dim)]

    def copy_axis(axis: Axis) -> Axis:
        if isinstance(axis.form, Concat) and any(v.generic for v in variables([axis])):
            parts = [(length, copy(part)) for length, part in axis.form.parts]
            return Axis(axis.size, form=Concat(parts), pinned=axis.pinned)
        if axis.generic and axis.form is None and not axis.pinned:
            return fresh.setdefault(axis, Axis(axis.size, reason=axis.reason))
        return axis

    return [copy(dim) for dim in dims]


def make_specific(dims: Iterable[Dim]) -> None:
    """A tensor that is about to be written is no longer constant along anything."""
    for dim in dims:
        for axis in variables(dim):
            axis.generic = False


# ------------------------------------------------------------------ splitting


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
        pin(whole, "a reshape across channels")
        return fixed(outer_size), fixed(total // outer_size)
    return outer, rest


def split_product(axis: Axis, outer_size: int) -> bool:
    """Refine an axis to outer x inner; False if a concatenation does not allow it."""
    axis = find(axis)
    inner_size = axis.size // outer_size
    if axis.form is None:
        if axis.pinned:
            factors = fixed(outer_size, axis.reason) + fixed(inner_size, axis.reason)
        else:
            outer = Axis(
                outer_size, generic=axis.generic, depends=axis.depends, reason=axis.reason
            )
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
    parts = _parts(axis)
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
    for length, part in old:
        inner = sorted(c - offset for c in cuts if offset < c < offset + length)
        for start, stop in pairwise([0, *inner, length]):
            parts.append((stop - start, part_of(part, start, stop - start)))
        offset += length
    axis.form = Concat(parts)


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

    __slots__ = ("axis", "start", "length", "part")

    def __init__(self, axis: Axis, start: int, length: int, part: Dim):
        self.axis, self.start, self.length, self.part = axis, start, length, part


def part_of(
    dim: Iterable[Axis], start: int, length: int, log: list[Restriction] | None = None
) -> Dim:
    """The dimension of `[start : start + length]`; what was narrowed is appended to `log`."""
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
        return fixed(length)
    narrowed = Restriction(
        first, first_start, first_length, _range(first, first_start, first_length)
    )
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
    return _join(_covering(_parts(find(axis)), start, length))


def _covering(
    parts: Sequence[tuple[int, Dim]], start: int, length: int
) -> list[tuple[int, Dim]]:
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
    """The dimension of a concatenation of (length, dimension) parts."""
    parts = [(length, leaves(dim)) for length, dim in parts if length]
    if all(is_pinned(dim) for _, dim in parts):
        return fixed(sum(length for length, _ in parts), "concatenation of fixed parts")
    return _join(parts)


def restrict(dim: Iterable[Axis], log: Sequence[Restriction]) -> Dim:
    """What remains of a dimension when the axes it depends on are narrowed."""
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
    """Give a variable that depends on `over` an action of its own in each part of `over`."""
    axis, over = find(axis), find(over)
    bounds = [0, *sorted(c for c in cuts if 0 < c < over.size), over.size]
    others = parents(axis) - {over}
    parts = []
    for start, stop in pairwise(bounds):
        narrowed = Restriction(over, start, stop - start, _range(over, start, stop - start))
        depends = set(leaves(narrowed.part))
        for other in others:
            depends |= set(leaves(_case(other, narrowed)))
        part = Axis(axis.size, depends=depends, generic=axis.generic, reason=axis.reason)
        parts.append((stop - start, [part]))
    axis.form = Cases([over], parts)


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
    """The dimensions of a tensor sliced to `[start : start + length]` along dimension `index`."""
    whole = leaves(dims[index])
    if length == size(whole):
        return list(dims)
    if length == 0:
        return [fixed(0) if i == index else dim for i, dim in enumerate(dims)]
    log: list[Restriction] = []
    part = part_of(whole, start, length, log)
    return [part if i == index else restrict(dim, log) for i, dim in enumerate(dims)]


# ------------------------------------------------------------------ unification


def unify(first: Iterable[Axis], second: Iterable[Axis], reason: str) -> None:
    """Demand that two dimensions of equal size are permuted alike."""
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
    """Unify each column of dimensions, independent ones first so that dependent ones find the same parents."""

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
        split_concat(a, boundaries(_parts(b)) if isinstance(b.form, Concat) else ())
        split_concat(b, boundaries(_parts(a)))
    if boundaries(_parts(a)) != boundaries(_parts(b)):
        pin([a, b], f"{reason}: concatenations that do not align")
        return
    pairs = list(zip(_parts(a), _parts(b), strict=True))
    b.same_as = a
    for (_, x), (_, y) in pairs:
        unify(x, y, reason)


def collapse(axis: Axis, reason: str) -> None:
    """Give up the dependence of a `Cases` axis: all its cases become one."""
    axis = find(axis)
    assert isinstance(axis.form, Cases)
    first, *others = [part for _, part in axis.form.parts]
    axis.form = Product(first)
    for other in others:
        unify(first, other, reason)


# ------------------------------------------------------------------ reshaping


def reshape(dims: Sequence[Dim], shape: Sequence[int]) -> list[Dim]:
    """The dimensions of a tensor viewed with another shape."""
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
    return [fixed(length) for length in new] + kept


# ------------------------------------------------------------------ regions


def regions(axes: Sequence[Axis]) -> tuple[int, list[tuple[int, list[Dim]]]] | None:
    """Cut the index space of a tensor so that, within each piece, one more concatenation or case is resolved.

    Returns the position of the axis that is cut and, for each piece, its length and the dimension that stands
    for each of `axes` there; or None if there is nothing to cut.
    """
    where = next((i for i, axis in enumerate(axes) if _is_open(axis, Cases)), None)
    if where is not None:
        form = axes[where].form
        assert isinstance(form, Cases)
        where = axes.index(leaves(form.over)[0])
    else:
        where = next((i for i, axis in enumerate(axes) if _is_open(axis, Concat)), None)
    if where is None:
        return None
    over = axes[where]
    cases = [axis for axis in axes if _ranges_over(axis, over)]
    cuts = {0, over.size}.union(*(boundaries(_parts(axis)) for axis in cases))
    if _is_open(over, Concat):
        cuts |= boundaries(_parts(over))
    pieces = []
    for start, stop in pairwise(sorted(cuts)):
        dims = [
            _at(axis, start) if _ranges_over(axis, over) else [axis] for axis in axes
        ]
        dims[where] = _at(over, start) if _is_open(over, Concat) else fixed(stop - start)
        pieces.append((stop - start, [leaves(dim) for dim in dims]))
    return where, pieces


def _is_open(axis: Axis, form: type) -> bool:
    return isinstance(axis.form, form) and not axis.pinned


def _ranges_over(axis: Axis, over: Axis) -> bool:
    return (
        isinstance(axis.form, Cases) and not axis.pinned and leaves(axis.form.over) == [over]
    )


def _at(axis: Axis, index: int) -> Dim:
    offset = 0
    for length, part in _parts(axis):
        if index < offset + length:
            return part
        offset += length
    raise IndexError(index)
