"""Cut a tensor's index space until no concatenation or case is left unresolved."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from graph_metanetworks.symmetry.axes.axis import (
    Axis,
    Cases,
    Concat,
    Dim,
    boundaries,
    fixed,
    leaves,
    parts_of,
)


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
    cuts = {0, over.size}.union(*(boundaries(parts_of(axis)) for axis in cases))
    if _is_open(over, Concat):
        cuts |= boundaries(parts_of(over))
    pieces = []
    for start, stop in pairwise(sorted(cuts)):
        dims = [_at(axis, start) if _ranges_over(axis, over) else [axis] for axis in axes]
        dims[where] = _at(over, start) if _is_open(over, Concat) else fixed(stop - start, over.reason)
        pieces.append((stop - start, [leaves(dim) for dim in dims]))
    return where, pieces


def _is_open(axis: Axis, form: type) -> bool:
    return isinstance(axis.form, form) and not axis.pinned


def _ranges_over(axis: Axis, over: Axis) -> bool:
    return isinstance(axis.form, Cases) and not axis.pinned and leaves(axis.form.over) == [over]


def _at(axis: Axis, index: int) -> Dim:
    offset = 0
    for length, part in parts_of(axis):
        if index < offset + length:
            return part
        offset += length
    raise IndexError(index)
