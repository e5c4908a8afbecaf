"""Give up every dependence between axes that some tensor contradicts.

An axis may depend on another only if that other one occurs exactly once in every tensor that carries
the first: the permutation of a head's dimensions can differ from head to head only where the head is
known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from graph_metanetworks.symmetry.axes import (
    Axis,
    Cases,
    Concat,
    Dim,
    boundaries,
    collapse,
    find,
    leaves,
    ordered_parents,
    parents,
    regions,
    split_cases,
)


def settle(tensors: Iterable[Sequence[Dim]]) -> None:
    """Shrink the group until all `tensors` (lists of dimensions) can express every dependence."""
    pending = list({_key(dims): [a for dim in dims for a in dim] for dims in tensors}.values())
    changed = True
    while changed:
        settled = _Settled()
        changed = False
        for axes in pending:
            changed |= settled.check(leaves(axes))
        changed |= _break_cycles(settled.variables)


def _key(dims: Sequence[Dim]) -> tuple[int, ...]:
    return tuple(id(axis) for dim in dims for axis in leaves(dim))


class _Settled:
    """One round over all tensors, which remembers what it has checked."""

    def __init__(self):
        self.seen: set[tuple[int, ...]] = set()
        self.variables: dict[Axis, None] = {}

    def check(self, axes: Dim) -> bool:
        """Drop what this tensor contradicts; return whether anything was dropped."""
        key = tuple(map(id, axes))
        if key in self.seen:
            return False
        self.seen.add(key)
        if _repair(axes):
            return True
        self.variables.update((axis, None) for axis in axes if not axis.pinned and axis.form is None)
        cut = regions(axes)
        if cut is None:
            return False
        # equal pieces settle equally, so only distinct ones cost anything
        changed = False
        for _, dims in cut[1]:
            changed |= self.check([axis for dim in dims for axis in dim])
        return changed


def _repair(axes: Dim) -> bool:
    count = Counter(axes)
    changed = False
    for axis in axes:
        if axis.pinned or find(axis) is not axis:
            continue
        if axis.form is None:
            changed |= _repair_variable(axis, count)
        elif isinstance(axis.form, Cases):
            over = leaves(axis.form.over)
            if len(over) != 1 or count[over[0]] != 1:
                collapse(axis, "cases of an axis that is not there")
                changed = True
    return changed


def _repair_variable(axis: Axis, count: Counter[Axis]) -> bool:
    kept = {parent for parent in parents(axis) if count[parent] == 1}
    if kept != parents(axis):
        axis.depends = frozenset(kept)
        return True
    for parent in ordered_parents(axis):
        if parent.pinned or not isinstance(parent.form, Concat | Cases):
            continue
        over = parent if isinstance(parent.form, Concat) else leaves(parent.form.over)[0]
        split_cases(axis, over, boundaries(parent.form.parts))
        return True
    return False


def _break_cycles(variables: Iterable[Axis]) -> bool:
    changed = False
    done: set[Axis] = set()
    for root in variables:
        path: list[tuple[Axis, list[Axis]]] = []
        on_path: set[Axis] = set()

        def enter(axis: Axis, path=path, on_path=on_path) -> None:
            path.append((axis, ordered_parents(axis)))
            on_path.add(axis)

        if root not in done:
            enter(root)
        while path:
            axis, rest = path[-1]
            if not rest:
                path.pop()
                on_path.discard(axis)
                done.add(axis)
                continue
            parent = rest.pop()
            if parent in on_path:
                axis.depends = frozenset(parents(axis) - {parent})
                changed = True
            elif parent not in done:
                enter(parent)
    return changed
