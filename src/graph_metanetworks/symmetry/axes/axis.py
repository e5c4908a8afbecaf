"""Axes and queries on them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, count
from math import prod

Dim = list["Axis"]
_numbers = count()  # creation order, which makes sampling reproducible


class Product:
    """The axis is the row-major product of `factors`."""

    __slots__ = ("factors",)

    def __init__(self, factors: Dim):
        self.factors = factors


class Concat:
    """The axis is the concatenation of `parts`, each a (length, dimension) pair.

    `ranges` remembers the dimension of each longer range, by (start, length): what depends on it must find
    the same axis again.
    """

    __slots__ = ("parts", "ranges")

    def __init__(self, parts: list[tuple[int, Dim]], ranges: dict[tuple[int, int], Dim] | None = None):
        self.parts = parts
        self.ranges = ranges or {}


class Cases:
    """Within each part of `over` (length, dimension) the axis acts as that part's dimension."""

    __slots__ = ("over", "parts")

    def __init__(self, over: Dim, parts: list[tuple[int, Dim]]):
        self.over = over
        self.parts = parts


class Axis:
    __slots__ = ("depends", "form", "generic", "number", "pinned", "reason", "same_as", "size")

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
    """Return the axes of a dimension with products expanded: variables, concatenations and cases."""
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
    """Yield all variables of a dimension, also inside concatenations and cases."""
    for axis in leaves(dim):
        if axis.form is None:
            yield axis
        else:
            for _, part in parts_of(axis):
                yield from variables(part)


def is_pinned(dim: Iterable[Axis]) -> bool:
    """Return whether nothing is permuted along a dimension."""
    return all(axis.pinned or axis.size < 2 for axis in variables(dim))


def parents(axis: Axis) -> set[Axis]:
    """Return the axes on which a variable depends."""
    axis = find(axis)
    return set(leaves(axis.depends)) - {axis}


def ordered_parents(axis: Axis) -> list[Axis]:
    """Return the parents in order of creation; a set is ordered by memory addresses."""
    return sorted(parents(axis), key=lambda parent: parent.number)


def referred(axis: Axis) -> set[Axis]:
    """Return the axes that determine how an axis is permuted, also inside concatenations and cases."""
    axis = find(axis)
    if axis.pinned:
        return set()
    if axis.form is None:
        return parents(axis)
    found = set(leaves(axis.form.over)) if isinstance(axis.form, Cases) else set()
    return found.union(*(referred(inner) for _, part in parts_of(axis) for inner in leaves(part)))


def parts_of(axis: Axis) -> list[tuple[int, Dim]]:
    """Return the parts of a concatenation or of cases."""
    assert isinstance(axis.form, Concat | Cases)
    return axis.form.parts


def boundaries(parts: Sequence[tuple[int, Dim]]) -> set[int]:
    """Return the inner boundaries of a list of parts."""
    return set(list(accumulate(length for length, _ in parts))[:-1])


def pin(dim: Iterable[Axis], reason: str) -> None:
    for axis in leaves(dim):
        if axis.pinned:
            continue
        axis.pinned = True
        axis.reason = reason
        if axis.form is not None:
            for _, part in parts_of(axis):
                pin(part, reason)


def instantiate(dims: Sequence[Dim]) -> list[Dim]:
    """Return the same dimensions with a fresh variable for every generic one."""
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
    """Mark a tensor that is about to be written as no longer constant along any dimension."""
    for dim in dims:
        for axis in variables(dim):
            axis.generic = False
