"""Which weights decide which scale or sign, planned once per architecture.

A choice of the free unknowns x multiplies each weight by exp(k . x), or by (-1)^(k . x). The row k, its
*functional*, is that of the weight's position. Weights of one parameter with equal functionals form a group,
so the norm of a group, or its sum, tells what to choose: k . x such that the norm becomes 1, or the sum
positive. Parameters are taken one after the other, each as soon as earlier decisions leave no doubt about how
the weights within its groups compare. Decisions refer to groups only, never to the order of units, so they
commute with permutations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array, diags_array, eye_array

from graph_metanetworks.symmetry.equations import eliminate
from graph_metanetworks.symmetry.units import Phase, Units, Unknowns

LARGEST_SYSTEM = 4_000_000  # entries of a dense matrix to invert; larger systems are left undecided

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Grouping:
    """The groups of a parameter: along some dimensions, indices of the same class belong together."""

    parameter: str
    dims: tuple[int, ...]
    classes: tuple[Integers, ...]  # of each index along each of `dims`
    counts: tuple[int, ...]  # of classes
    target: Integers  # of each combination of classes, the group that it counts for; -1 for none


@dataclass(frozen=True, eq=False)
class Step:
    """Decide some unknowns from groups of weights: `unknowns = combine @ values of groups`."""

    groupings: tuple[Grouping, ...]
    columns: Integers  # the unknowns
    combine: csr_array  # [unknowns, groups]
    phase: bool = False  # read from the phases of a bias


@dataclass(frozen=True, eq=False)
class Plan:
    """Steps in order, and how all unknowns follow from those that are decided."""

    parameters: Mapping[str, Unknowns]
    names: tuple[str, ...]  # parameters that anything scales; tied ones once
    matrix: csr_array  # [unknowns + 1, free], in terms of what the steps decide
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
    planner.decide([[(name, 1) for name in factors], [(name, 1) for name in biases]], biases)
    planner.decide([[(name, 2) for name in factors]])
    return planner.plan()


def plan_signs(units: Units, phases: Mapping[str, Phase], added: frozenset[str]) -> Plan:
    """Decide the parity of phases, then signs.

    First by vectors that are multiplied with (the scale of a norm: its signs are rarely flipped), then by
    matrices at the inputs and outputs, then by others in the order of the forward pass, and last by biases.
    """
    planner = _Planner(units)
    for name, phase in phases.items():
        planner.decide_phases(name, phase)
    factors = [name for name in planner.names if name not in added]
    vectors = [name for name in factors if sum(len(own) > 1 for own in units.parameters[name]) == 1]
    outer = [name for name in factors if sum(units.along(name, d) for d in _dims(units, name)) == 1]
    tiers = [vectors, outer, factors, [name for name in planner.names if name in added]]
    planner.decide([[(name, 1) for name in tier] for tier in tiers])
    planner.decide([[(name, 2) for name in factors]])
    return planner.plan()


def _dims(units: Units, name: str) -> range:
    return range(len(units.parameters[name]))


class _Planner:
    def __init__(self, units: Units) -> None:
        self.parameters, self.modulo = units.parameters, units.solution.modulo
        self.matrix = units.solution.matrix
        self.undecided = np.ones(units.solution.free)
        self.steps: list[Step] = []
        self.names = _distinct(units)
        self.hashes = np.random.default_rng(0).normal(size=units.solution.free)  # tell functionals apart

    def plan(self) -> Plan:
        return Plan(self.parameters, tuple(self.names), self.matrix, tuple(self.steps))

    # -------------------------------------------------------------- the order of decisions

    def decide(self, tiers: Iterable[Sequence[tuple[str, int]]], biases: Sequence[str] = ()) -> None:
        """Try parameters tier by tier; after a success in one, begin again with the first."""
        tiers = list(tiers)
        while any(self._decide_tier(tier, biases) for tier in tiers):
            pass

    def _decide_tier(self, tier: Sequence[tuple[str, int]], biases: Sequence[str]) -> bool:
        return any([self._decide_one(name, ways, biases) for name, ways in tier])

    def _decide_one(self, name: str, ways: int, biases: Sequence[str]) -> bool:
        found = self._functionals(name)
        if found is None or len(found[0].dims) > ways:
            return False
        grouping, rows = found
        groupings = [grouping, *(self._joining(bias, rows) for bias in biases if bias != name)]
        one_way = len(grouping.dims) < 2
        return self._add([g for g in groupings if g is not None], rows, independent=one_way)

    def decide_phases(self, name: str, phase: Phase) -> None:
        rows = self._undecided_part(phase.parity)
        elements = np.arange(len(phase.elements))
        grouping = Grouping(name, (0,), (elements,), (len(elements),), elements)
        self._add([grouping], rows, independent=True, phase=True)

    # -------------------------------------------------------------- functionals

    def _functionals(self, name: str) -> tuple[Grouping, csr_array] | None:
        """Return the groups of a parameter and what is undecided about each, or None if nothing is."""
        rows = [self._undecided_part(own) for own in self.parameters[name]]
        if not any(own.nnz for own in rows):
            return None
        found = [np.unique(own @ self.hashes, return_index=True, return_inverse=True) for own in rows]
        dims = tuple(dim for dim, (values, *_) in enumerate(found) if len(values) > 1)
        counts = tuple(len(found[dim][0]) for dim in dims)
        size = int(np.prod(counts))
        if len(dims) > 1 and size * sum(counts) > LARGEST_SYSTEM:
            return None
        total = csr_array((size, len(self.undecided)))
        for dim, own in enumerate(rows):
            index = np.indices(counts)[dims.index(dim)].reshape(-1) if dim in dims else np.zeros(size, int)
            total = total + own[found[dim][1][index]]
        classes = tuple(found[dim][2] for dim in dims)
        return Grouping(name, dims, classes, counts, np.arange(size)), self._clean(csr_array(total))

    def _undecided_part(self, unknowns: Integers) -> csr_array:
        return self._clean(csr_array(self.matrix[unknowns] * self.undecided))

    def _clean(self, rows: csr_array) -> csr_array:
        if self.modulo:
            rows.data %= self.modulo
        rows.eliminate_zeros()
        rows.sort_indices()
        return rows

    def _joining(self, name: str, rows: csr_array) -> Grouping | None:
        """Return the groups of another parameter with the same functionals, or None if there are none."""
        found = self._functionals(name)
        if found is None or len(found[0].dims) > 1:
            return None
        grouping, own = found
        groups = {value: group for group, value in enumerate(rows @ self.hashes) if value}
        target = np.array([groups.get(value, -1) for value in own @ self.hashes])
        if (target < 0).all():
            return None
        return Grouping(name, grouping.dims, grouping.classes, grouping.counts, target)

    # -------------------------------------------------------------- solving

    def _add(
        self, groupings: Sequence[Grouping], rows: csr_array, *, independent: bool, phase: bool = False
    ) -> bool:
        """Decide what groups can decide; return whether it was anything.

        Scales that several groups disagree about are decided by least squares. Signs cannot be, so they must
        be `independent`, unless their values are known to be consistent.
        """
        pivots = self._pivots(rows)
        columns = np.array(sorted(pivots), dtype=np.int64)
        occupied = int((np.diff(rows.indptr) > 0).sum())
        if not pivots or (self.modulo and independent and len(columns) < occupied):
            return False
        combine = self._combine(csr_array(rows[:, columns]))
        if combine is None:
            return False
        self._change_variables(pivots)
        self.undecided[columns] = 0
        self.steps.append(Step(tuple(groupings), columns, combine, phase))
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
        """Replace each pivot by what is decided: x = decided + multiples of others."""
        entries = [(p, other, value) for p, own in pivots.items() for other, value in own.items()]
        if not entries:
            return
        rows, columns, values = zip(*entries, strict=True)
        free = len(self.undecided)
        change = eye_array(free) + coo_array((values, (rows, columns)), shape=(free, free))
        self.matrix = self._clean(csr_array(self.matrix @ csr_array(change)))

    def _combine(self, rows: csr_array) -> csr_array | None:
        """Return the left inverse of rows, [unknowns, groups]."""
        if np.diff(rows.indptr).max(initial=0) <= 1:
            return csr_array((rows @ diags_array(1 / rows.power(2).sum(axis=0))).T)
        if rows.shape[0] * rows.shape[1] > LARGEST_SYSTEM:
            return None
        return csr_array(_inverse_of_bits(rows) if self.modulo else np.linalg.pinv(rows.toarray()))


def _inverse_of_bits(rows: csr_array) -> NDArray[np.float64]:
    """Return a left inverse modulo 2 of a matrix of full column rank. [n, m] -> [m, n]"""
    count = rows.shape[1]
    work = np.concatenate([rows.toarray() % 2, np.eye(rows.shape[0])], axis=1).astype(np.uint8)
    for column in range(count):
        pivot = column + int(work[column:, column].argmax())
        work[[column, pivot]] = work[[pivot, column]]
        others = work[:, column].astype(bool)
        others[column] = False
        work[others] ^= work[column]
    return work[:count, count:].astype(np.float64)


def _distinct(units: Units) -> list[str]:
    """Return the parameters that anything scales, in the order of the forward pass; tied ones once."""
    found: dict[tuple, str] = {}
    for name, unknowns in units.parameters.items():
        if any(units.along(name, dim) for dim in range(len(unknowns))):
            found.setdefault(tuple(own.tobytes() for own in unknowns), name)
    return list(found.values())
