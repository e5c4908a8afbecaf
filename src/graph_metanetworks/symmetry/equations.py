"""Linear equations between unknown scales: sums of signed unknowns that must be zero.

Unknowns are numbered from 1. An equation is a row of signed numbers: `[3, -5]` says x3 = x5. Scales are real
numbers (their logarithms are added); signs are solved modulo 2, where x and -x are equal.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components

Rows = NDArray[np.int64]  # [equations, terms], padded with 0
Terms = dict[int, float]
ROUNDING = 1e-9  # sums of thirds that should cancel


@dataclass(frozen=True, eq=False)
class Solution:
    """All solutions: a matrix that turns a choice of the free unknowns into the value of every unknown."""

    matrix: csr_array  # [unknowns + 1, free]; row 0 is the number zero
    modulo: int | None = None

    @property
    def free(self) -> int:
        """How many unknowns may be chosen."""
        return cast(tuple[int, int], self.matrix.shape)[1]

    def values(self, chosen: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the value of every unknown. [free] -> [unknowns + 1]"""
        values = self.matrix @ chosen
        return values if self.modulo is None else values % self.modulo


def solve(unknowns: int, equations: list[Rows], *, modulo: int | None = None) -> Solution:
    """Eliminate unknowns: equal ones by connected components, the few remaining sums one by one.

    >>> solution = solve(3, [np.array([[1, -2]]), np.array([[3, 0]])])       # x1 = x2, x3 = 0
    >>> solution.values(np.array([0.5])).tolist()
    [0.0, 0.5, 0.5, 0.0]
    """
    representative = np.arange(unknowns + 1)
    rows = _stacked(equations)
    while True:
        rows = _reduced(rows, representative, modulo)
        count = (rows != 0).sum(axis=1)
        short = rows[count <= 2]
        if not len(short):
            break
        representative = _merged(representative, short, modulo)
        rows = rows[count > 2]
    return Solution(_matrix(representative, _eliminated(rows, modulo)), modulo)


def _matrix(representative: NDArray[np.int64], sums: dict[int, Terms]) -> csr_array:
    """Express each unknown by the free ones: plus or minus a representative, which may be a sum of others."""
    count = len(representative)
    roots = np.unique(np.abs(representative))
    free = [root for root in roots.tolist() if root and root not in sums]
    column = {root: index for index, root in enumerate(free)}
    entries = [(root, column[root], 1.0) for root in free]
    entries += [(root, column[other], value) for root, own in sums.items() for other, value in own.items()]
    rows, columns, values = zip(*entries, strict=True) if entries else ((), (), ())
    by_root = coo_array((np.array(values), (rows, columns)), shape=(count, len(free)))
    signs = coo_array(
        (np.sign(representative), (np.arange(count), np.abs(representative))), shape=(count, count)
    )
    return csr_array(signs.astype(np.float64) @ by_root.tocsr())


def _stacked(equations: list[Rows]) -> Rows:
    width = max((rows.shape[1] for rows in equations), default=1)
    stacked, start = np.zeros((sum(map(len, equations)), width), dtype=np.int64), 0
    for rows in equations:
        stacked[start : start + len(rows), : rows.shape[1]] = rows
        start += len(rows)
    return stacked


def _reduced(rows: Rows, representative: NDArray[np.int64], modulo: int | None) -> Rows:
    """Rewrite rows in terms of representatives; drop terms that cancel, duplicates and empty rows."""
    rows = np.sign(rows) * representative[np.abs(rows)]
    if modulo == 2:
        rows = np.abs(rows)
    order = np.argsort(np.abs(rows), axis=1, kind="stable")
    rows = np.take_along_axis(rows, order, axis=1)
    opposite = -1 if modulo is None else 1
    for column in range(rows.shape[1] - 1):  # equal neighbours of opposite sign cancel
        for other in range(column + 1, rows.shape[1]):
            cancel = (rows[:, column] != 0) & (rows[:, other] == opposite * rows[:, column])
            rows[cancel, column] = 0
            rows[cancel, other] = 0
    rows = np.unique(rows, axis=0) if len(rows) else rows
    return rows[(rows != 0).any(axis=1)]


def _merged(representative: NDArray[np.int64], rows: Rows, modulo: int | None) -> NDArray[np.int64]:
    """Merge unknowns that are equal, opposite or zero, as connected components of +x and -x for each x."""
    count = len(representative)
    order = np.argsort(np.abs(rows), axis=1)[:, -2:]
    first, second = (
        np.take_along_axis(rows, order, axis=1).T if rows.shape[1] > 1 else (0 * rows[:, 0], rows[:, 0])
    )
    everything = np.arange(count)
    joined = [(_node(first, count), _node(-second, count)), (_node(-first, count), _node(second, count))]
    if modulo == 2:  # x and -x are equal, so only what is joined to 0 is zero
        joined.append((everything, everything + count))
    source, target = (np.concatenate(ends) for ends in zip(*joined, strict=True))
    graph = coo_array((np.ones(len(source)), (source, target)), shape=(2 * count, 2 * count))
    _, component = connected_components(graph, directed=False)
    lowest = np.full(component.max() + 1, count)
    np.minimum.at(lowest, component, np.tile(everything, 2))
    plus, minus = component[:count], component[count:]
    root = lowest[plus]
    is_zero = plus == component[0] if modulo == 2 else plus == minus
    signed = np.where(is_zero, 0, np.where(component[root] == plus, root, -root))
    return np.sign(representative) * signed[np.abs(representative)]


def _node(signed: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return the vertex of x, or of -x; 0 is its own negative."""
    return np.where(signed >= 0, signed, count - signed)


def _eliminated(rows: Rows, modulo: int | None) -> dict[int, Terms]:
    return eliminate((_counted(row, modulo) for row in rows.tolist()), modulo)


def eliminate(rows: Iterable[Terms], modulo: int | None = None) -> dict[int, Terms]:
    """Express unknowns as sums of others by Gaussian elimination, such that every row is zero.

    >>> eliminate([{1: 1.0, 2: 1.0}, {1: 1.0, 3: -2.0}])                # x1 + x2 = 0, x1 = 2 x3
    {2: {1: -1.0}, 3: {1: 0.5}}
    """
    pivots: dict[int, Terms] = {}
    for row in rows:
        terms = _substituted(row, pivots, modulo)
        if not terms:
            continue
        pivot = max(terms)  # the newest: usually a weight that compensates what was scaled before it
        factor = terms.pop(pivot)
        pivots[pivot] = {other: -value / factor for other, value in terms.items()}
    return {pivot: _substituted(pivots[pivot], pivots, modulo) for pivot in pivots}


def _counted(row: list[int], modulo: int | None) -> Terms:
    terms: Terms = {}
    for signed in filter(None, row):
        terms[abs(signed)] = terms.get(abs(signed), 0.0) + (1 if signed > 0 else -1)
    return _kept(terms, modulo)


def _substituted(terms: Terms, pivots: dict[int, Terms], modulo: int | None) -> Terms:
    while found := [unknown for unknown in terms if unknown in pivots]:
        for unknown in found:
            factor = terms[unknown]
            terms = {other: value for other, value in terms.items() if other != unknown}
            for other, value in pivots[unknown].items():
                terms[other] = terms.get(other, 0.0) + factor * value
        terms = _kept(terms, modulo)
    return terms


def _kept(terms: Terms, modulo: int | None) -> Terms:
    reduced = {u: value % modulo if modulo else value for u, value in terms.items()}
    return {unknown: value for unknown, value in reduced.items() if abs(value) > ROUNDING}
