"""What the interpreter knows about one tensor of the forward pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum

from torch import Tensor

from graph_metanetworks.symmetry.axes import Dim, is_pinned
from graph_metanetworks.trace.interpret.labels import View, canonical


class Role(IntEnum):
    """What a tensor is made of; an operation's result takes the highest role among its operands."""

    CONSTANT = 0
    WEIGHT = 1  # computed from parameters only
    ACTIVATION = 2  # depends on the input


@dataclass(slots=True)
class Value:
    """Axes, nodes and parameters behind one tensor.

    An activation has `labels` once nodes stand for its channels; until then `origin` says which
    elements of an input it shows, and `behind` which nodes it was computed from in a way that labels
    cannot follow. A weight has `views` of parameters; `mixed` names parameters that went through
    arithmetic. `pooled` says that positions were summed, which distinguishes the two matrices of a
    DeepSets layer. `passed` names the first function that it went through since its nodes were made.
    """

    role: Role
    dims: list[Dim]
    labels: list[Tensor] = field(default_factory=list)
    views: list[View] = field(default_factory=list)
    mixed: frozenset[str] = frozenset()
    origin: View | None = None
    behind: Tensor | None = None
    pooled: bool = False
    passed: str = ""

    @property
    def is_weight(self) -> bool:
        return self.role == Role.WEIGHT

    @property
    def is_activation(self) -> bool:
        return self.role == Role.ACTIVATION

    @property
    def parameters(self) -> frozenset[str]:
        return self.mixed | {view.parameter for view in self.views}

    @property
    def is_pinned(self) -> bool:
        return all(is_pinned(dim) for dim in self.dims)

    def moved(self, dims: list[Dim], operation: Callable[[Tensor], Tensor]) -> Value:
        """Return the value after an operation that only moves elements: the operation runs on the labels."""
        return self.moved_all([dims], lambda label: [operation(label)])[0]

    def moved_all(
        self, all_dims: list[list[Dim]], operation: Callable[[Tensor], Sequence[Tensor]]
    ) -> list[Value]:
        """Like `moved`, for an operation with several results, such as a split."""
        labels = [operation(label) for label in self.labels]
        views = [view.moved_all(operation) for view in self.views]
        origin = self.origin.moved_all(operation) if self.origin else None
        return [
            replace(
                self,
                dims=dims,
                labels=[canonical(label[i]) for label in labels],
                views=[view[i] for view in views],
                origin=origin[i] if origin else None,
            )
            for i, dims in enumerate(all_dims)
        ]

    def arithmetic(self, dims: list[Dim]) -> Value:
        """Return the value after arithmetic that no label follows."""
        if self.is_weight:
            return Value(self.role, dims, mixed=self.parameters)
        return Value(self.role, dims, behind=self.behind)


def highest(values: Iterable[Value]) -> Role:
    return max((value.role for value in values), default=Role.CONSTANT)
