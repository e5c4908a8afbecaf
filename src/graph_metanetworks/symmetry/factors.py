"""The factors of the group and the fixed axes, with the neurons and weights along them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from math import lgamma, prod
from typing import TYPE_CHECKING

from graph_metanetworks.symmetry.axes import Axis, ordered_parents, parents, variables

if TYPE_CHECKING:
    from graph_metanetworks.graph.parts import NodeGroup
    from graph_metanetworks.symmetry.group import Symmetry

Place = tuple[str, int]  # a parameter, and one of its dimensions


@dataclass(frozen=True, slots=True)
class Factor:
    """Neurons that are permuted together: `copies` copies of the symmetric group on `size` elements.

    The kind is "channels"; "heads" or "groups", which move with everything in them; or "within heads" and
    "within groups", permuted in each of them independently (a wreath product).
    """

    size: int
    copies: int  # how many times it is permuted independently, such as once in each head
    kind: str
    groups: tuple[NodeGroup, ...]  # whose nodes move together
    parameters: tuple[Place, ...]  # that move with them
    within: tuple[Factor, ...] = field(default=(), repr=False)  # the heads or groups, outermost first
    axis: Axis | None = field(default=None, repr=False, compare=False)

    @property
    def log_order(self) -> float:
        """What the factor adds to `symmetry.log_order`."""
        return self.copies * lgamma(self.size + 1)


@dataclass(frozen=True, slots=True)
class Fixed:
    """Neurons or positions that are not permuted, with the reason."""

    reason: str
    groups: tuple[NodeGroup, ...]
    parameters: tuple[Place, ...]  # dimensions along which no nodes of `groups` lie: kernel taps, ...


def factors(symmetry: Symmetry) -> tuple[Factor, ...]:
    """Return the factors of a group, those with the most permutations first."""
    groups, places = _along(symmetry)
    inner = {parent for axis in symmetry.variables for parent in parents(axis)}
    named = {axis: any(g.kind == "head" for g in groups[axis]) for axis in symmetry.variables}

    @cache
    def factor(axis: Axis) -> Factor:
        outer = [p for p in ordered_parents(axis) if not p.pinned and p.size > 1]
        outer.sort(key=lambda parent: len(parents(parent)))
        kind = "channels"
        if axis in inner:
            kind = "heads" if named[axis] else "groups"
        if outer:
            kind = "within heads" if named[outer[0]] else "within groups"
        return Factor(
            axis.size,
            prod(parent.size for parent in parents(axis)),
            kind,
            tuple(groups[axis]),
            tuple(places[axis]),
            tuple(map(factor, outer)),
            axis,
        )

    return tuple(sorted(map(factor, symmetry.variables), key=lambda f: f.log_order, reverse=True))


def fixed_axes(symmetry: Symmetry) -> tuple[Fixed, ...]:
    """Return what is pinned, by reason: node groups, then dimensions of weights that no group shows."""
    groups, places = _along(symmetry)
    reasons: dict[str, tuple[dict[NodeGroup, None], dict[Place, None]]] = defaultdict(lambda: ({}, {}))
    for group in symmetry.groups:
        if group.size == 1 and group.kind in ("input", "output"):  # along no axis
            reasons[group.kind][0][group] = None
    for axis, own in groups.items():
        if axis.pinned and own:
            reasons[axis.reason][0].update(own)
    for axis, own in places.items():
        if axis.pinned and not groups.get(axis):
            reasons[axis.reason][1].update(own)
    return tuple(Fixed(reason, tuple(own), tuple(seen)) for reason, (own, seen) in reasons.items())


def _along(symmetry: Symmetry) -> tuple[dict[Axis, dict[NodeGroup, None]], dict[Axis, dict[Place, None]]]:
    """Return the node groups and the dimensions of parameters along each axis."""
    groups: dict[Axis, dict[NodeGroup, None]] = defaultdict(dict)
    places: dict[Axis, dict[Place, None]] = defaultdict(dict)
    for group, (_, dim) in zip(symmetry.groups, symmetry.nodes, strict=bool(symmetry.groups)):
        for axis in _longer(dim):
            groups[axis][group] = None
    for name, dims in symmetry.parameters.items():
        for index, dim in enumerate(dims):
            for axis in _longer(dim):
                places[axis][name, index] = None
    return groups, places


def _longer(dim: list[Axis]) -> Iterator[Axis]:
    return (axis for axis in variables(dim) if axis.size > 1)
