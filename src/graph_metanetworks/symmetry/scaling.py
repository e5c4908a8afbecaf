"""Scales and signs of hidden units that leave the function unchanged: symmetries beyond permutations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from graph_metanetworks.errors import StateDictMismatch
from graph_metanetworks.symmetry.equations import Solution

Unknowns = tuple[NDArray[np.int64], ...]  # of each dimension, one for each index; 0 where nothing is scaled


@dataclass(frozen=True, eq=False)
class Units:
    """The unknown scales along each dimension of each parameter, and the equations between them, solved."""

    parameters: Mapping[str, Unknowns]
    solution: Solution
    idle: int  # choices that cancel: a scale along one dimension, its inverse along another

    @property
    def count(self) -> int:
        """How many may be chosen freely, not counting choices that change no weight."""
        return self.solution.free - self.idle

    def along(self, name: str, dimension: int) -> bool:
        """Return whether anything varies along a dimension of a parameter."""
        return self.solution.matrix[self.parameters[name][dimension]].nnz > 0


@dataclass(frozen=True, eq=False)
class Scaling:
    """Per hidden unit: positive scales where functions are homogeneous (ReLU), signs where odd (tanh).

    A scaled unit must be read linearly: the weights that read it take the inverse. Units whose scale some
    operation does not pass on (a norm, a softmax, a GELU) have none.

    >>> import torch, graph_metanetworks as gmn
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
    >>> graph = gmn.trace(model, torch.randn(1, 2))
    >>> graph.scaling
    Scaling(scales=3, signs=0)
    >>> rescaled = graph.scaling.sample(torch.Generator().manual_seed(0)).apply(model.state_dict())
    """

    scaled: Units
    signed: Units

    @property
    def num_scales(self) -> int:
        """How many positive scales may be chosen."""
        return self.scaled.count

    @property
    def num_signs(self) -> int:
        """How many signs may be chosen."""
        return self.signed.count

    def sample(self, generator: torch.Generator | None = None, *, spread: float = 0.5) -> Rescaling:
        """Draw random scales, whose logarithms have standard deviation `spread`, and random signs."""
        options = {"generator": generator, "dtype": torch.float64, "device": "cpu"}
        logarithms = spread * torch.randn(self.scaled.solution.free, **options)
        signs = torch.rand(self.signed.solution.free, **options) < 0.5
        scale = np.exp(self.scaled.solution.values(logarithms.numpy()))
        sign = 1 - 2 * self.signed.solution.values(signs.double().numpy())
        names = self.scaled.parameters.keys() | self.signed.parameters.keys()
        return Rescaling(
            {n: _laid_out(self.scaled, n, scale) * _laid_out(self.signed, n, sign) for n in names}
        )

    def explain(self) -> str:
        """Return how many units may be scaled or change sign, and along which dimensions of which weights."""
        if not self.num_scales and not self.num_signs:
            return "No unit may be scaled or change sign."
        lines = [f"{self.num_scales:,} positive scales and {self.num_signs:,} signs of units may be chosen:"]
        for name, own in self.scaled.parameters.items():
            for dimension in range(len(own)):
                found = [
                    what
                    for what, units in (("scales", self.scaled), ("signs", self.signed))
                    if units.along(name, dimension)
                ]
                if found:
                    lines.append(f"  {name} ({dimension}): {' and '.join(found)}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"Scaling(scales={self.num_scales}, signs={self.num_signs})"


@dataclass(frozen=True, eq=False)
class Rescaling:
    """One choice of scales and signs: a factor for every weight."""

    factors: Mapping[str, Tensor] = field(repr=False)  # broadcastable to the parameter, float64

    def apply(self, state_dict: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the rescaled weights, which compute the same function."""
        missing = [name for name in self.factors if name not in state_dict]
        if missing:
            raise StateDictMismatch(
                f"'{missing[0]}' is missing, but it is rescaled. Pass the state dict of the traced "
                "architecture."
            )
        return {name: self._scaled(name, value) for name, value in state_dict.items()}

    def _scaled(self, name: str, value: Tensor) -> Tensor:
        if name not in self.factors:
            return value
        return (value * self.factors[name].to(value.device)).to(value.dtype)

    def inverse(self) -> Rescaling:
        """Return the choice that undoes this one."""
        return Rescaling({name: 1 / factor for name, factor in self.factors.items()})


def _laid_out(units: Units, name: str, values: NDArray[np.float64]) -> Tensor:
    """Return the product, over the dimensions of a parameter, of the factors along each."""
    own = units.parameters[name]
    total = torch.ones([1] * len(own), dtype=torch.float64)
    for dimension, unknowns in enumerate(own):
        shape = [-1 if d == dimension else 1 for d in range(len(own))]
        total = total * torch.from_numpy(values[unknowns]).view(shape)
    return total
