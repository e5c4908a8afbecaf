"""One representative of all rescaled copies of a network: its canonical scales, signs and phases.

Weights are stacks `[elements, networks, 1]` of networks of one architecture. Each step of a plan reads a
number per group of weights and decides unknowns by it: the norm of what comes into a unit becomes 1, the sum
of its weights positive. Groups that are zero decide nothing, so dead units stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import pi

import numpy as np
import torch
from torch import Tensor

from graph_metanetworks.errors import StateDictMismatch
from graph_metanetworks.symmetry.decisions import Grouping, Plan, Step, plan_scales, plan_signs
from graph_metanetworks.symmetry.sparse_rows import TorchRows
from graph_metanetworks.symmetry.units import Phase, Units

DEAD = 1e-6  # norms below it decide no scale; sums below it, relative to the sum of sizes, decide no sign
LARGEST_NORM = 5.0  # bound on the logarithms of norms that layers share

Weights = Mapping[str, Tensor]  # [elements, networks, 1]


class Groups:
    """The groups of a parameter as tensors."""

    def __init__(self, grouping: Grouping) -> None:
        self.parameter, self.dims, self.counts = grouping.parameter, grouping.dims, grouping.counts
        self.classes = [
            None if np.array_equal(own, np.arange(count)) else torch.from_numpy(own)
            for own, count in zip(grouping.classes, grouping.counts, strict=True)
        ]
        (self.counting,) = (torch.from_numpy(grouping.target) >= 0).nonzero(as_tuple=True)
        self.target = torch.from_numpy(grouping.target)[self.counting]

    def totals(self, values: Tensor) -> Tensor:
        """Sum over each combination of classes. [*shape, networks] -> [*counts, networks]"""
        others = [dim for dim in range(values.dim() - 1) if dim not in self.dims]
        values = values.sum(others) if others else values
        for place, (own, count) in enumerate(zip(self.classes, self.counts, strict=True)):
            if own is not None:
                shape = [count if dim == place else size for dim, size in enumerate(values.shape)]
                values = values.new_zeros(shape).index_add(place, own.to(values.device), values)
        return values


class ReadyStep:
    """A step of a plan as tensors."""

    def __init__(self, step: Step) -> None:
        self.groups = [Groups(grouping) for grouping in step.groupings]
        self.combine = TorchRows(step.combine)
        self.columns = torch.from_numpy(step.columns)
        self.is_phase = step.is_phase


class CanonicalForm:
    """Base of canonical forms: a plan, and how the unknowns that it decides act on weights."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._steps = [ReadyStep(step) for step in plan.steps]
        self._rows = {
            name: {dim: TorchRows(rows) for dim, own in enumerate(unknowns) if (rows := plan.rows[own]).any()}
            for name, unknowns in plan.parameters.items()
        }

    def decided(self, weights: Weights) -> Tensor:
        """Return the unknowns that take the weights to their representative. [free, networks]"""
        like = next(iter(weights.values()))
        free, networks = self.plan.rows.columns, like.shape[1]
        unknowns = torch.zeros(free, networks, dtype=working_precision(like.dtype), device=like.device)
        for step in self._steps:
            found = step.combine @ self.values(step, weights, unknowns)
            unknowns = unknowns.index_copy(0, step.columns.to(like.device), found)
        return unknowns

    def values(self, step: ReadyStep, weights: Weights, unknowns: Tensor) -> Tensor:
        """Return what each group of weights asks for. [groups, networks]"""
        raise NotImplementedError

    def factor(self, values: Tensor) -> Tensor:
        """Return the factor of weights for the value of their functional."""
        raise NotImplementedError

    def acted(self, name: str, weights: Weights, unknowns: Tensor) -> Tensor:
        """Return the weights of a parameter after a choice of unknowns. [*shape, networks]"""
        shape = [len(own) for own in self.plan.parameters[name]]
        value = weights[name].to(unknowns.dtype).reshape(*shape, -1)
        for dim, rows in self._rows[name].items():
            along = [size if d == dim else 1 for d, size in enumerate(shape)]
            value = value * self.factor(rows @ unknowns).view(*along, -1)
        return value

    def changes(self, name: str) -> bool:
        return bool(self._rows.get(name))

    def __call__(self, weights: Weights) -> dict[str, Tensor]:
        """Return the representative; parameters that nothing can change are returned as they are."""
        if not any(map(self.changes, weights)):
            return dict(weights)
        if any(value.shape[2:] != (1,) for value in weights.values()):
            raise StateDictMismatch(
                "weights with several channels have no canonical form: gradients and momenta scale in other "
                "ways than weights do. Collate one state dict per network."
            )
        unknowns = self.decided(weights)
        return {
            name: self.result(name, weights, unknowns).reshape(value.shape).to(value.dtype)
            if self.changes(name)
            else value
            for name, value in weights.items()
        }

    def result(self, name: str, weights: Weights, unknowns: Tensor) -> Tensor:
        return self.acted(name, weights, unknowns)


def working_precision(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)


# ------------------------------------------------------------------ scales


class CanonicalScales(CanonicalForm):
    """Scales: equal norms of what comes into the units of a layer, and norms of layers as equal as can be.

    First the incoming weights of each unit, with its bias, get norm 1. That alone is a representative, but
    the last layer would hold the product of all norms. So layers share it: one factor for all units that were
    decided together, by least squares of the logarithms of the parameters' norms.
    """

    def __init__(self, units: Units, added: frozenset[str]) -> None:
        super().__init__(plan_scales(units, added))
        none = len(self.plan.steps)
        steps = np.full(self.plan.rows.columns, none)
        for number, step in enumerate(self.plan.steps):
            steps[step.columns] = number
        self._step_of = torch.from_numpy(steps)  # of each unknown
        self._sharing = [name for name in self.plan.names if name not in added]
        exponents = np.zeros((len(self._sharing), none))  # of a common factor for each step
        for row, name in enumerate(self._sharing):
            for own in self.plan.parameters[name]:
                rows = self.plan.rows[own]
                exponents[row] += np.bincount(
                    steps[rows.column].ravel(), rows.factor.ravel() / len(own), none + 1
                )[:none]
        self._share = torch.from_numpy(np.linalg.pinv(exponents))

    def factor(self, values: Tensor) -> Tensor:
        return values.exp()

    def values(self, step: ReadyStep, weights: Weights, unknowns: Tensor) -> Tensor:
        first, *others = (
            groups.totals(self.acted(groups.parameter, weights, unknowns).square()).reshape(
                -1, unknowns.shape[1]
            )
            for groups in step.groups
        )
        for groups, squares in zip(step.groups[1:], others, strict=True):
            first = first.index_add(
                0, groups.target.to(first.device), squares[groups.counting.to(first.device)]
            )
        return -_log_norm(first)

    def decided(self, weights: Weights) -> Tensor:
        unknowns = super().decided(weights)
        norms = []
        for name in self._sharing:
            value = self.acted(name, weights, unknowns)
            norms.append(_log_norm(value.square().flatten(0, -2).sum(0) / value.shape[0]))
        norms = torch.stack(norms).clamp(-LARGEST_NORM, LARGEST_NORM)
        shared = -self._share.to(norms) @ norms  # [steps, networks]
        return unknowns + torch.cat([shared, torch.zeros_like(shared[:1])])[self._step_of.to(shared.device)]


def _log_norm(squares: Tensor) -> Tensor:
    """Return the logarithm of a norm from its square; 0 for what is dead."""
    return torch.where(squares > DEAD**2, squares, 1).log() / 2


# ------------------------------------------------------------------ signs and phases


class CanonicalSigns(CanonicalForm):
    """Signs and phases: phases of sines between -pi/2 and pi/2, then sums of weights positive."""

    def __init__(self, units: Units, phases: Mapping[str, Phase], added: frozenset[str]) -> None:
        super().__init__(plan_signs(units, phases, added))
        self._phases = phases
        self._parity = {name: TorchRows(self.plan.rows[phase.parity]) for name, phase in phases.items()}

    def factor(self, values: Tensor) -> Tensor:
        return 1 - 2 * (values % 2)

    @torch.no_grad()  # constant almost everywhere
    def decided(self, weights: Weights) -> Tensor:
        return super().decided(weights)

    def values(self, step: ReadyStep, weights: Weights, unknowns: Tensor) -> Tensor:
        (groups,) = step.groups
        name = groups.parameter
        if step.is_phase:
            return _turns(weights[name][..., 0].to(unknowns.dtype), self._phases[name]).round()
        value = self.acted(name, weights, unknowns)
        totals = groups.totals(value)
        if len(groups.dims) == 2:
            return _signs_of_rank_one(totals)
        sizes = groups.totals(value.abs())
        return (totals < -DEAD * sizes).to(unknowns.dtype).reshape(-1, unknowns.shape[1])

    def changes(self, name: str) -> bool:
        return super().changes(name) or name in self._phases

    def result(self, name: str, weights: Weights, unknowns: Tensor) -> Tensor:
        value = self.acted(name, weights, unknowns)
        if name not in self._phases:
            return value
        phase = self._phases[name]
        flat = value.reshape(-1, value.shape[-1])
        parity = (self._parity[name] @ unknowns) % 2
        turns = parity + 2 * ((_turns(flat, phase) - parity) / 2).round()  # the nearest of the same parity
        index = torch.from_numpy(phase.elements).to(flat.device)
        return flat.index_add(0, index, -turns * _half_period(phase, flat))


def _turns(bias: Tensor, phase: Phase) -> Tensor:
    """Return the phases of a bias in multiples of pi. [elements, networks] -> [phases, networks]"""
    own = bias.detach()[torch.from_numpy(phase.elements).to(bias.device)]
    return own / _half_period(phase, own)


def _half_period(phase: Phase, like: Tensor) -> Tensor:
    return torch.from_numpy(pi / phase.frequency).to(like)[:, None]


def _signs_of_rank_one(totals: Tensor) -> Tensor:
    """Return which entries of a matrix to flip, such that its best approximation of rank one is positive.

    Rows and columns change sign together, so no single row can tell. [n, m, networks] -> [n * m, networks]
    """
    left, _, right = torch.linalg.svd(totals.movedim(-1, 0), full_matrices=False)
    products = left[:, :, :1] * right[:, :1, :]  # [networks, n, m]
    return (products < 0).to(totals.dtype).flatten(1).t()
