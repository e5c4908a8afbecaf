"""The unknown scales of a tensor's elements, and the equations between them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from graph_metanetworks.symmetry.equations import Solution, solve
from graph_metanetworks.trace.interpret.labels import canonical, compact, lay_along, pattern


@dataclass(frozen=True, eq=False)
class Labels:
    """The scale of each element: the product over some label tensors of the tensor's shape.

    A tensor of zeros matches any scale.
    """

    tensors: list[Tensor] = field(default_factory=list)
    zero: bool = False

    @staticmethod
    def of_dimensions(unknowns: Sequence[Tensor], shape: Sequence[int]) -> Labels:
        """Return labels of a parameter: its dimensions scale independently, except those of size 1."""
        return Labels(
            [
                lay_along(own, dim, len(shape)).expand(tuple(shape))
                for dim, own in enumerate(unknowns)
                if shape[dim] > 1
            ]
        )

    def moved(self, operation: Callable[[Tensor], Tensor]) -> Labels:
        """Return the labels after an operation that only moves elements."""
        return Labels([canonical(operation(label)) for label in self.tensors], self.zero)

    def expand(self, shape: Sequence[int]) -> Labels:
        return Labels([label.expand(tuple(shape)) for label in self.tensors], self.zero)

    def inverse(self) -> Labels:
        negative = [(-compact(label, pattern(label))).expand(label.shape) for label in self.tensors]
        return Labels(negative, self.zero)

    def times(self, other: Labels) -> Labels:
        return Labels(self.tensors + other.tensors, self.zero or other.zero)

    def along(self, dims: Iterable[int]) -> Labels:
        """Return the labels that vary along some of the given dimensions."""
        dims = set(dims)
        return Labels([label for label in self.tensors if pattern(label) & dims])

    def without(self, dims: Iterable[int]) -> Labels:
        """Return the labels that vary along none of the given dimensions."""
        dims = set(dims)
        return Labels([label for label in self.tensors if not pattern(label) & dims], self.zero)

    @property
    def dims(self) -> set[int]:
        """The dimensions along which scales vary."""
        return set().union(*(pattern(label) for label in self.tensors))


class System:
    """The unknowns of one network, and what operations demand of them."""

    def __init__(self, nested: Collection[tuple[int, int]] = ()) -> None:
        self.parameters: dict[int, list[Tensor]] = {}  # unknowns of each dimension of a parameter, by key
        self._nested = nested  # dimensions without unknowns, by key of the parameter
        self._count = 0
        self._equations: list[np.ndarray] = []

    def parameter(self, key: int, shape: Sequence[int]) -> Labels:
        """Return the labels of a parameter: new unknowns along each dimension of a size above 1."""
        own = self.parameters[key] = [torch.zeros(size, dtype=torch.int64) for size in shape]
        for dim, size in enumerate(shape):
            if size > 1 and (key, dim) not in self._nested:
                own[dim] = self.fresh(size)
        return Labels.of_dimensions(self.parameters[key], shape)

    def fresh(self, count: int) -> Tensor:
        """Return new unknowns."""
        self._count += count
        return torch.arange(self._count - count + 1, self._count + 1)

    def zero(self, labels: Labels) -> None:
        """Demand that a tensor is not scaled, by any of its labels."""
        for label in labels.tensors:
            self._demand([compact(label, pattern(label))])

    def equal(self, first: Labels, second: Labels) -> None:
        """Demand that two tensors of equal shape have equal scales; zeros match any scale."""
        if not first.zero and not second.zero:
            self.product_is_one(first.times(second.inverse()))

    def product_is_one(self, labels: Labels) -> None:
        """Demand that labels cancel, separately for those that vary along the same dimensions."""
        for group in _overlapping(labels.tensors):
            keep = set().union(*map(pattern, group))
            self._demand([compact(label, keep) for label in group])

    def _demand(self, terms: list[Tensor]) -> None:
        columns = [column.reshape(-1).numpy() for column in torch.broadcast_tensors(*terms)]
        self._equations.append(np.unique(np.stack(columns, axis=1), axis=0))

    def solve(self, mode: str) -> Solution:
        return self._solved(self._equations, mode)

    def choices_with_fixed(self, fixed: Tensor, mode: str) -> int:
        """Count the choices that leave some unknowns as they are."""
        return self._solved([*self._equations, fixed.numpy()[:, None]], mode).free

    def choices_without_effect(self, fixed: Tensor, mode: str) -> int:
        """Count those that change no weight either: constant along each dimension, with product 1."""
        demanded = [*self._equations, fixed.numpy()[:, None]]
        for own in self.parameters.values():
            vectors = [vector.numpy() for vector in own if len(vector) > 1]
            demanded += [np.stack([v[1:], -v[:-1]], axis=1) for v in vectors]
            if vectors:
                demanded.append(np.array([[v[0] for v in vectors]]))
        return self._solved(demanded, mode).free

    def _solved(self, equations: list[np.ndarray], mode: str) -> Solution:
        return solve(self._count, equations, modulo=2 if mode == "sign" else None)


def _overlapping(labels: Sequence[Tensor]) -> list[list[Tensor]]:
    """Group labels such that labels of different groups vary along different dimensions."""
    groups: list[tuple[set[int], list[Tensor]]] = []
    for label in labels:
        dims = pattern(label)
        touching = [group for group in groups if group[0] & dims or group[0] == dims]
        groups = [group for group in groups if group not in touching]
        groups.append(
            (dims.union(*(own for own, _ in touching)), [*(x for _, own in touching for x in own), label])
        )
    return [own for _, own in groups]
