"""Base of baselines whose layers fit the networks of one architecture."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from math import prod, sqrt
from typing import Any, ClassVar

from torch import Tensor, nn

from graph_metanetworks.errors import UnsupportedNetwork
from graph_metanetworks.graph.batch import Batch, Stack, require_batch
from graph_metanetworks.nn.baselines.tensor_scale import TensorScale
from graph_metanetworks.nn.embedding import input_of
from graph_metanetworks.nn.fitted import Fitted
from graph_metanetworks.nn.mlp import Mlp

Shapes = dict[str, list[int]]


class OneArchitecture(Fitted):
    """Base of models that take networks with the tensors of the training zoo: equal names and shapes.

    `fit` finds these, makes the layers and takes the scale of each tensor.
    """

    method: ClassVar[str]  # its name in errors
    head: Mlp

    def __init__(self) -> None:
        super().__init__()
        self.scale = TensorScale()

    @abstractmethod
    def make_layers(self) -> Mapping[str, nn.Module]:
        """Make the layers, by name, for networks of this `form`."""

    def form_of(self, stack: Stack, batch: Batch) -> dict[str, Any]:
        """Return what the layers depend on, as JSON; refuse networks that the model cannot take."""
        return {"tensors": _shapes(stack)}

    @property
    def form(self) -> dict[str, Any]:
        """What `form_of` returned for the training zoo."""
        if not self.fitted_names:
            raise RuntimeError(f"{self.method} makes its layers for a zoo: call fit([batch, ...]) first.")
        return json.loads(self.fitted_names[0])

    @property
    def elements(self) -> int:
        """How many weights a network has."""
        return sum(map(prod, self.form["tensors"].values()))

    def fit(self, batches: Iterable[Batch]) -> None:
        """Take the shapes and the scales of tensors from a training zoo."""
        batches = list(batches) if isinstance(batches, Iterator) else batches
        first = next(iter(batches))
        self.set_fitted_names([json.dumps(self.form_of(first.stacks[0], first))])
        for batch in batches:
            self.require_shapes(batch)
        self.scale.fit(batches)

    def make_tables(self) -> None:
        for name, layers in self.make_layers().items():
            self.add_module(name, layers.to(self.scale.mean))

    def require_shapes(self, batch: Batch) -> None:
        """Check that the networks of a batch have the tensors of the training zoo."""
        require_batch(batch)
        expected: Shapes = self.form["tensors"]
        for stack in batch.stacks:
            own = _shapes(stack)
            if own == expected:
                continue
            name = next(n for n in [*own, *expected] if own.get(n) != expected.get(n))
            raise UnsupportedNetwork(
                f"{self.method} takes networks of one architecture, but "
                f"{batch.names[stack.members[0]]} has {_said(own, name)}, and the first of the training zoo "
                f"has {_said(expected, name)}. The method gmn takes any network."
            )

    def standardized(self, batch: Batch) -> Batch:
        """Standardize weights tensor by tensor."""
        self.require_shapes(batch)
        return replace(batch, stacks=tuple(map(self._standardized, batch.stacks)))

    def _standardized(self, stack: Stack) -> Stack:
        parts = self.scale(stack).split([len(value) for value in stack.weights.values()])
        return replace(stack, weights={n: x[..., None] for n, x in zip(stack.weights, parts, strict=True)})

    def embed(self, batch: Batch) -> Tensor:
        """Return the representation of each network before the last layer. [B, hidden]"""
        return input_of(self.head.second, self, batch)


def width_within(budget: int, quadratic: float, linear: float) -> int:
    """Return the width `h` for which `quadratic h² + linear h` is about `budget`.

    >>> width_within(50_000, 1, 500)
    85
    """
    return max(1, round((sqrt(linear**2 + 4 * quadratic * budget) - linear) / (2 * quadratic)))


def _shapes(stack: Stack) -> Shapes:
    return {parameter.name: list(parameter.shape) for parameter in stack.graph.parameters}


def _said(shapes: Shapes, name: str) -> str:
    return f"'{name}' of shape {tuple(shapes[name])}" if name in shapes else f"no '{name}'"
