"""Tensors of distinct numbers that carry axes: operations on both must commute with permutations."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count

import torch
from torch import Tensor

from graph_metanetworks.symmetry.automorphism import Automorphism
from graph_metanetworks.symmetry.axes import (
    Dim,
    concatenate,
    free,
    narrow,
    pin,
    reshape,
    unify_dims,
)
from graph_metanetworks.symmetry.group import Symmetry
from graph_metanetworks.symmetry.settle import settle


@dataclass(eq=False)
class Symbolic:
    """A tensor and its axes."""

    value: Tensor
    dims: list[Dim]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.value.shape)


@dataclass
class Algebra:
    """The tensors made so far, and how each came about."""

    tensors: list[Symbolic] = field(default_factory=list)
    steps: list[tuple[Callable[..., Tensor], list[Symbolic], Symbolic]] = field(default_factory=list)
    numbers: count = field(default_factory=count)

    def new(self, *shape: int) -> Symbolic:
        total = torch.Size(shape).numel()
        value = torch.tensor([next(self.numbers) for _ in range(total)]).double().sin().view(shape)
        made = Symbolic(value, [free(n) for n in shape])
        self.tensors.append(made)
        return made

    def _do(self, function: Callable[..., Tensor], inputs: list[Symbolic], dims: list[Dim]) -> Symbolic:
        made = Symbolic(function(*(x.value for x in inputs)), dims)
        self.tensors.append(made)
        self.steps.append((function, inputs, made))
        return made

    def reshape(self, x: Symbolic, shape: Sequence[int]) -> Symbolic:
        return self._do(lambda a: a.reshape(tuple(shape)), [x], reshape(x.dims, shape))

    def permute(self, x: Symbolic, order: Sequence[int]) -> Symbolic:
        return self._do(lambda a: a.permute(*order), [x], [x.dims[i] for i in order])

    def narrow(self, x: Symbolic, dim: int, start: int, length: int) -> Symbolic:
        return self._do(lambda a: a.narrow(dim, start, length), [x], narrow(x.dims, dim, start, length))

    def cat(self, x: Symbolic, y: Symbolic, dim: int) -> Symbolic:
        others = [i for i in range(len(x.dims)) if i != dim]
        unify_dims([[x.dims[i], y.dims[i]] for i in others], "cat")
        dims = list(x.dims)
        dims[dim] = concatenate([(x.shape[dim], x.dims[dim]), (y.shape[dim], y.dims[dim])])
        return self._do(lambda a, b: torch.cat([a, b], dim), [x, y], dims)

    def add(self, x: Symbolic, y: Symbolic) -> Symbolic:
        unify_dims([[a, b] for a, b in zip(x.dims, y.dims, strict=True)], "add")
        return self._do(lambda a, b: a + b, [x, y], x.dims)

    def sum(self, x: Symbolic, dim: int) -> Symbolic:
        return self._do(lambda a: a.sum(dim), [x], [d for i, d in enumerate(x.dims) if i != dim])

    def ramp(self, x: Symbolic, dim: int) -> Symbolic:
        pin(x.dims[dim], "order")
        shape = [-1 if i == dim else 1 for i in range(len(x.dims))]
        return self._do(lambda a: a * torch.arange(a.shape[dim]).view(shape), [x], x.dims)

    # -------------------------------------------------------------- checks

    def sample(self, seed: int = 0) -> Automorphism:
        settle([x.dims for x in self.tensors])
        everything = {str(i): tuple(x.dims) for i, x in enumerate(self.tensors)}
        return Symmetry(everything, (), 0).sample(torch.Generator().manual_seed(seed))

    def check(self) -> None:
        """Every step commutes with sampled permutations; returns nothing, fails loudly."""
        for seed in range(3):
            sample = self.sample(seed)
            for function, inputs, made in self.steps:
                moved = function(*(sample.permute(x.value, x.dims) for x in inputs))
                torch.testing.assert_close(moved, sample.permute(made.value, made.dims))

    @property
    def free(self) -> list[int]:
        """Sizes of the axes that can still be permuted."""
        return sorted(v.size for v in self.sample().symmetry.variables)

    @property
    def log_order(self) -> float:
        return self.sample().symmetry.log_order
