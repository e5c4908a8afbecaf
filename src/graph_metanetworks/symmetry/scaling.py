"""Scales, signs and phases of hidden units that leave the function unchanged: beyond permutations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import pi
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from graph_metanetworks.errors import StateDictMismatch
from graph_metanetworks.symmetry.representative import CanonicalScales, CanonicalSigns
from graph_metanetworks.symmetry.units import Phase, Units

CanonicalKind = Literal["scales", "signs"]
CANONICAL_KINDS = ("scales", "signs")


@dataclass(frozen=True, eq=False)
class Scaling:
    """Per hidden unit: positive scales where functions are homogeneous (ReLU), signs where odd (tanh).

    A scaled unit must be read linearly: the weights that read it take the inverse. Units whose scale some
    operation does not pass on (a norm, a softmax, a GELU) have none. The bias of a sine unit has a phase: it
    can move by multiples of pi over the frequency, if odd ones are compensated by signs.

    >>> import torch, graph_metanetworks as gmn
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
    >>> graph = gmn.trace(model, torch.randn(1, 2))
    >>> graph.scaling
    Scaling(scales=3, signs=0, phases=0)
    >>> rescaled = graph.scaling.sample(torch.Generator().manual_seed(0)).apply(model.state_dict())
    >>> ours, theirs = graph.scaling.canonical(model.state_dict()), graph.scaling.canonical(rescaled)
    >>> all(torch.allclose(ours[name], theirs[name]) for name in ours)
    True
    """

    scaled: Units
    signed: Units
    phases: Mapping[str, Phase] = field(default_factory=dict)  # by the name of the bias
    added: frozenset[str] = frozenset()  # vectors that are added, such as biases

    @property
    def num_scales(self) -> int:
        """How many positive scales may be chosen."""
        return self.scaled.count

    @property
    def num_signs(self) -> int:
        """How many signs may be chosen."""
        return self.signed.count

    @property
    def num_phases(self) -> int:
        """How many biases of sine units may move: each by multiples of its period, most by half of it."""
        distinct = {tuple(phase.parity.tolist()): len(phase.parity) for phase in self.phases.values()}
        return sum(distinct.values())

    def sample(self, generator: torch.Generator | None = None, *, spread: float = 0.5) -> Rescaling:
        """Draw random scales, whose logarithms have standard deviation `spread`, random signs and phases."""
        options = {"generator": generator, "dtype": torch.float64, "device": "cpu"}
        logarithms = spread * torch.randn(self.scaled.solution.free, **options)
        signs = torch.rand(self.signed.solution.free, **options) < 0.5
        scale = np.exp(self.scaled.solution.values(logarithms.numpy()))
        odd = self.signed.solution.values(signs.double().numpy())
        periods = torch.rand(len(odd), **options).numpy() < 0.5
        names = self.scaled.parameters.keys() | self.signed.parameters.keys()
        return Rescaling(
            {n: _laid_out(self.scaled, n, scale) * _laid_out(self.signed, n, 1 - 2 * odd) for n in names},
            {n: self._shift(n, odd - 2 * periods) for n in self.phases},
        )

    def _shift(self, name: str, turns: NDArray[np.float64]) -> Tensor:
        """Return what to add to a bias for the given multiples of half periods."""
        phase, shape = self.phases[name], [len(own) for own in self.signed.parameters[name]]
        shift = torch.zeros(shape, dtype=torch.float64)
        shift.view(-1)[torch.from_numpy(phase.elements)] = torch.from_numpy(
            turns[phase.parity] * pi / phase.frequency
        )
        return shift

    # -------------------------------------------------------------- canonical form

    @cached_property
    def canonical_scales(self) -> CanonicalScales:
        """Takes stacked weights to canonical scales; planned on first use."""
        return CanonicalScales(self.scaled, self.added)

    @cached_property
    def canonical_signs(self) -> CanonicalSigns:
        """Takes stacked weights to canonical signs and phases; planned on first use."""
        return CanonicalSigns(self.signed, self.phases, self.added)

    def canonical(
        self, state_dict: Mapping[str, Tensor], *, kind: CanonicalKind = "scales"
    ) -> dict[str, Tensor]:
        """Return one representative of all rescaled copies of a network, which computes the same function.

        It commutes with permutations, and gradients flow through it. Units whose weights are near zero stay
        as they are. `kind="signs"` leaves positive scales alone.
        """
        self._check(state_dict)
        known = self.scaled.parameters.keys() & state_dict.keys()
        stacks = {name: state_dict[name].reshape(-1, 1, 1) for name in state_dict if name in known}
        found = self.canonical_stack(stacks, kind=kind)
        return {
            name: found[name].reshape(value.shape) if found.get(name) is not stacks.get(name) else value
            for name, value in state_dict.items()
        }

    def canonical_stack(
        self, weights: Mapping[str, Tensor], *, kind: CanonicalKind = "scales"
    ) -> dict[str, Tensor]:
        """Return the representatives of stacked networks, `[elements, networks, 1]` by name."""
        if kind not in CANONICAL_KINDS:
            raise ValueError(f"kind={kind!r} is none of {', '.join(CANONICAL_KINDS)}")
        return self.canonical_signs(self.canonical_scales(weights) if kind == "scales" else weights)

    def _check(self, state_dict: Mapping[str, Tensor]) -> None:
        for name in sorted(
            {*self.canonical_scales.plan.names, *self.canonical_signs.plan.names, *self.phases}
        ):
            if name not in state_dict:
                raise StateDictMismatch(_missing(name))
            shape, traced = tuple(state_dict[name].shape), tuple(map(len, self.scaled.parameters[name]))
            if shape != traced:
                raise StateDictMismatch(
                    f"'{name}' has shape {shape}, but the network was traced with {traced}. Pass the state "
                    "dict of the traced architecture, or trace this network again."
                )

    # -------------------------------------------------------------- for people

    def explain(self) -> str:
        """Return how many units may be scaled, change sign or move in phase, and along which weights."""
        if not self.num_scales and not self.num_signs and not self.num_phases:
            return "No unit may be scaled or change sign."
        scales, signs = f"{self.num_scales:,} positive scales", f"{self.num_signs:,} signs"
        what = f"{scales} and {signs}"
        if self.num_phases:
            what = f"{scales}, {signs} and {self.num_phases:,} phases"
        along = [f"  {name} ({dimension}): {' and '.join(kinds)}" for name, dimension, kinds in self.along()]
        return "\n".join([f"{what} of units may be chosen:", *along])

    def along(self) -> list[tuple[str, int, list[str]]]:
        """Return the parameters and dimensions along which units are, with what may be chosen for them."""
        found = []
        for name, own in self.scaled.parameters.items():
            for dimension, unknowns in enumerate(own):
                units = (("scales", self.scaled), ("signs", self.signed))
                kinds = [kind for kind, chosen in units if chosen.along(name, dimension)]
                if name in self.phases and len(unknowns) > 1:
                    kinds.append("phases")
                if kinds:
                    found.append((name, dimension, kinds))
        return found

    def __repr__(self) -> str:
        return f"Scaling(scales={self.num_scales}, signs={self.num_signs}, phases={self.num_phases})"


@dataclass(frozen=True, eq=False)
class Rescaling:
    """One choice of scales, signs and phases: a factor for every weight, then a shift of some biases."""

    factors: Mapping[str, Tensor] = field(repr=False)  # broadcastable to the parameter, float64
    shifts: Mapping[str, Tensor] = field(repr=False, default_factory=dict)  # of the parameter's shape

    def apply(self, state_dict: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the rescaled weights, which compute the same function."""
        missing = [name for name in self.factors if name not in state_dict]
        if missing:
            raise StateDictMismatch(_missing(missing[0]))
        return {name: self._scaled(name, value) for name, value in state_dict.items()}

    def _scaled(self, name: str, value: Tensor) -> Tensor:
        if name not in self.factors:
            return value
        result = value * self.factors[name].to(value.device)
        if name in self.shifts:
            result = result + self.shifts[name].to(value.device)
        return result.to(value.dtype)

    def inverse(self) -> Rescaling:
        """Return the choice that undoes this one."""
        return Rescaling(
            {name: 1 / factor for name, factor in self.factors.items()},
            {name: -shift / self.factors[name] for name, shift in self.shifts.items()},
        )


def _missing(name: str) -> str:
    return f"'{name}' is missing, but it is rescaled. Pass the state dict of the traced architecture."


def _laid_out(units: Units, name: str, values: NDArray[np.float64]) -> Tensor:
    """Return the product, over the dimensions of a parameter, of the factors along each."""
    own = units.parameters[name]
    total = torch.ones([1] * len(own), dtype=torch.float64)
    for dimension, unknowns in enumerate(own):
        shape = [-1 if d == dimension else 1 for d in range(len(own))]
        total = total * torch.from_numpy(values[unknowns]).view(shape)
    return total
