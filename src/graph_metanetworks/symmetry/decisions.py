"""Which weights decide which scale or sign, planned once per architecture.

A choice of the free unknowns x multiplies each weight by exp(k . x), or by (-1)^(k . x). The row k, its
*functional*, belongs to the weight's position. Weights of one parameter with equal functionals form a group:
the norm or the sum of a group tells how to choose k . x, such that the norm becomes 1 or the sum positive.
Parameters are taken one after the other, each as soon as earlier decisions fix how weights within its groups
compare. Decisions refer to groups, never to the order of units, so they commute with permutations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod
from typing import cast

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array, diags_array, eye_array

from graph_metanetworks.symmetry.equations import eliminate
from graph_metanetworks.symmetry.sparse_rows import SparseRows
from graph_metanetworks.symmetry.units import Phase, Units, Unknowns

LARGEST_SYSTEM = 4_000_000  # entries of a dense matrix to invert; larger systems are left undecided

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Grouping:
    """The groups of a parameter: along some dimensions, indices of the same class belong together."""

    parameter: str
    dims: tuple[int, ...]
    classes: tuple[Integers, ...]  # of each index along each of `dims`
    counts: tuple[int, ...]  # how many classes there are
    target: Integers  # of each combination of classes, the group that it counts for; -1 for none


@dataclass(frozen=True, eq=False)
class Step:
    """Decide some unknowns from groups of weights: `unknowns = combine @ what groups ask for`."""

    groupings: tuple[Grouping, ...]
    columns: Integers  # the unknowns
    combine: SparseRows  # [unknowns, groups]
    is_phase: bool = False  # groups are elements of a bias, which ask for parities


@dataclass(frozen=True, eq=False)
class Plan:
    """Steps in order, and how all unknowns follow from those that are decided."""

    parameters: Mapping[str, Unknowns]
    names: tuple[str, ...]  # parameters that anything scales; tied ones once
    rows: SparseRows  # [unknowns + 1, free]: every unknown, in terms of what the steps decide
    steps: tuple[Step, ...]

    @property
    def decided(self) -> int:
        """How many unknowns the steps decide."""
        return sum(len(step.columns) for step in self.steps)


def plan_scales(units: Units, added: frozenset[str]) -> Plan:
    """Decide scales in the order of the forward pass: by what comes into a unit, including its bias."""
    planner = _Planner(units)
    factors = [name for name in planner.names if name not in added]
    biases = [name for name in planner.names if name in added]
    planner.decide([factors, biases], joining=biases)
    planner.decide([factors], ways=2)
    return planner.plan()


def plan_signs(units: Units, phases: Mapping[str, Phase], added: frozenset[str]) -> Plan:
    """Decide the parities of phases, then signs.

    First come vectors that are factors (the scale of a norm seldom changes its sign), then matrices at the
    inputs and outputs, then others in the order of the forward pass, and last biases.
    """
    planner = _Planner(units)
    for name, phase in phases.items():
        planner.decide_phases(name, phase)
    factors = [name for name in planner.names if name not in added]
    biases = [name for name in planner.names if name in added]
    vectors = [name for name in factors if sum(len(own) > 1 for own in units.parameters[name]) == 1]
    outer = [name for name in factors if sum(own.any() for own in planner.rows_along(name)) == 1]
    planner.decide([vectors, outer, factors, biases])
    planner.decide([factors], ways=2)
    return planner.plan()


class _Planner:
    def __init__(self, units: Units) -> None:
        self.parameters, self.modulo = units.parameters, units.solution.modulo
        self.steps: list[Step] = []
        self._set_matrix(units.solution.matrix)
        self.undecided = np.ones(units.solution.free)
        self.hashes = np.random.default_rng(0).normal(size=units.solution.free)  # tell functionals apart
        self.names = self._distinct()

    def _set_matrix(self, matrix: csr_array) -> None:
        self.matrix = self._clean(matrix)
        self.rows = SparseRows.of(self.matrix)

    def _clean(self, matrix: csr_array) -> csr_array:
        """Return a matrix without stored zeros."""
        matrix = matrix.copy()
        if self.modulo:
            matrix.data %= self.modulo
        matrix.eliminate_zeros()
        matrix.sort_indices()
        return matrix

    def rows_along(self, name: str) -> list[SparseRows]:
        """Return the functionals along each dimension of a parameter."""
        return [self.rows[own] for own in self.parameters[name]]

    def _distinct(self) -> list[str]:
        """Return the parameters that anything scales, in the order of the forward pass; tied ones once."""
        found: dict[tuple, str] = {}
        for name, unknowns in self.parameters.items():
            if any(own.any() for own in self.rows_along(name)):
                found.setdefault(tuple(own.tobytes() for own in unknowns), name)
        return list(found.values())

    def plan(self) -> Plan:
        return Plan(self.parameters, tuple(self.names), self.rows, tuple(self.steps))

    # -------------------------------------------------------------- the order of decisions

    def decide(self, tiers: Iterable[Sequence[str]], *, joining: Sequence[str] = (), ways: int = 1) -> None:
        """Try parameters tier by tier; after a success in one, begin again with the first.

        Groups may differ along up to `ways` dimensions. Vectors in `joining` count for the groups whose
        functional they share.
        """
        tiers = list(tiers)
        while any(self._decide_tier(tier, joining, ways) for tier in tiers):
            pass

    def _decide_tier(self, tier: Sequence[str], joining: Sequence[str], ways: int) -> bool:
        return any([self._decide_one(name, joining, ways) for name in tier])

    def _decide_one(self, name: str, joining: Sequence[str], ways: int) -> bool:
        found = self._groups(name, ways)
        if found is None:
            return False
        grouping, rows = found
        values = rows @ self.hashes
        others = [self._joined(other, values) for other in joining if other != name]
        groupings = [grouping, *(other for other in others if other is not None)]
        return self._add(groupings, rows, consistent=len(grouping.dims) > 1)

    def decide_phases(self, name: str, phase: Phase) -> None:
        """Decide the parities of a bias by how far its elements are from phases near zero."""
        elements = np.arange(len(phase.elements))
        grouping = Grouping(name, (0,), (elements,), (len(elements),), elements)
        self._add([grouping], self._undecided(self.rows[phase.parity]), is_phase=True)

    # -------------------------------------------------------------- groups

    def _groups(self, name: str, ways: int) -> tuple[Grouping, csr_array] | None:
        """Return the groups of a parameter and what is undecided about them, or None if it cannot decide."""
        hashes, along = self.hashes * self.undecided, self.rows_along(name)
        values = [own.dot(hashes) for own in along]
        if not any(own.any() for own in values):
            return None
        found = [_classes(own) for own in values]
        dims = tuple(dim for dim, (first, _) in enumerate(found) if len(first) > 1)
        counts = tuple(len(found[dim][0]) for dim in dims)
        if len(dims) > ways or (len(dims) > 1 and prod(counts) * sum(counts) > LARGEST_SYSTEM):
            return None
        rows, combinations = [], np.indices(counts).reshape(len(dims), prod(counts))
        for dim, own in enumerate(along):
            index = combinations[dims.index(dim)] if dim in dims else np.zeros(prod(counts), dtype=int)
            rows.append(own[found[dim][0][index]])
        classes = tuple(found[dim][1] for dim in dims)
        grouping = Grouping(name, dims, classes, counts, np.arange(prod(counts)))
        return grouping, self._undecided(SparseRows.product(rows))

    def _undecided(self, rows: SparseRows) -> csr_array:
        return self._clean(replace(rows, factor=rows.factor * self.undecided[rows.column]).matrix())

    def _joined(self, name: str, functionals: NDArray[np.float64]) -> Grouping | None:
        """Return which groups a vector counts for, or None."""
        found = self._groups(name, ways=1)
        if found is None:
            return None
        grouping, rows = found
        groups = {value: group for group, value in enumerate(functionals) if value}
        target = np.array([groups.get(value, -1) for value in rows @ self.hashes])
        return None if (target < 0).all() else replace(grouping, target=target)

    # -------------------------------------------------------------- solving

    def _add(
        self,
        groupings: Sequence[Grouping],
        rows: csr_array,
        *,
        consistent: bool = False,
        is_phase: bool = False,
    ) -> bool:
        """Decide what groups can decide; return whether that is anything.

        Scales about which groups disagree are decided by least squares. Signs cannot be: groups must be
        independent, unless what they ask for is `consistent`.
        """
        pivots = self._pivots(rows)
        columns = np.array(sorted(pivots), dtype=np.int64)
        asking = int((np.diff(rows.indptr) > 0).sum())
        if not pivots or (self.modulo and not consistent and len(columns) < asking):
            return False
        combine = self._left_inverse(csr_array(rows[:, columns]))
        if combine is None:
            return False
        self._change_variables(pivots)
        self.undecided[columns] = 0
        self.steps.append(Step(tuple(groupings), columns, SparseRows.of(combine), is_phase))
        return True

    def _pivots(self, rows: csr_array) -> dict[int, dict[int, float]]:
        """Return unknowns to decide, each with the multiples of others that a decision leaves open."""
        if np.diff(rows.indptr).max(initial=0) <= 1:
            return {int(column): {} for column in np.unique(rows.indices)}
        terms = [
            dict(zip(rows.indices[start:end].tolist(), rows.data[start:end].tolist(), strict=True))
            for start, end in pairwise(rows.indptr)
        ]
        return eliminate(terms, self.modulo)

    def _change_variables(self, pivots: Mapping[int, Mapping[int, float]]) -> None:
        """Replace each pivot by what is decided: pivot = decided + multiples of others."""
        entries = [(pivot, other, value) for pivot, own in pivots.items() for other, value in own.items()]
        if not entries:
            return
        rows, columns, values = zip(*entries, strict=True)
        free = len(self.undecided)
        change = eye_array(free) + coo_array((values, (rows, columns)), shape=(free, free))
        self._set_matrix(csr_array(self.matrix @ csr_array(change)))

    def _left_inverse(self, rows: csr_array) -> csr_array | None:
        """Return the matrix that solves `rows @ unknowns = values`: by least squares, or modulo 2."""
        if np.diff(rows.indptr).max(initial=0) <= 1:
            return csr_array((rows @ diags_array(1 / rows.power(2).sum(axis=0))).T)
        if prod(cast(tuple[int, int], rows.shape)) > LARGEST_SYSTEM:
            return None
        dense = rows.toarray()
        return csr_array(_left_inverse_of_bits(dense) if self.modulo else np.linalg.pinv(dense))


def _classes(values: NDArray[np.float64]) -> tuple[Integers, Integers]:
    """Return the first index of each distinct value, in order, and which of them each index equals."""
    _, first, same = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return first[order], np.argsort(order)[same]


def _left_inverse_of_bits(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a left inverse modulo 2 of a matrix of full column rank. [n, m] -> [m, n]"""
    count = rows.shape[1]
    work = np.concatenate([rows % 2, np.eye(len(rows))], axis=1).astype(np.uint8)
    for column in range(count):
        pivot = column + int(work[column:, column].argmax())
        work[[column, pivot]] = work[[pivot, column]]
        others = work[:, column].astype(bool)
        others[column] = False
        work[others] ^= work[column]
    return work[:count, count:].astype(np.float64)
