"""Plan which units of a network to remove: `gmn.prune_plan`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any, Literal

import torch
from torch import Tensor, nn

from graph_metanetworks.errors import PruneError
from graph_metanetworks.graph.parameter_graph import ParameterGraph
from graph_metanetworks.prune.coupling import coupled_axes
from graph_metanetworks.prune.importance import Importance, Loss, Scores
from graph_metanetworks.prune.limits import Limits, refused_axes
from graph_metanetworks.prune.savings import count_operations, count_parameters
from graph_metanetworks.prune.selection import MINIMUM, MULTIPLE, Choice, choose, why_kept
from graph_metanetworks.symmetry.axes import Axis, ordered_parents
from graph_metanetworks.symmetry.factors import Factor
from graph_metanetworks.symmetry.subsets import Subset
from graph_metanetworks.table import Table

Amount = float | Mapping[str, float]
STEPS = 20  # of the bisection that meets a target


@dataclass(frozen=True, eq=False)
class PlannedFactor:
    """What a plan does to one factor of the symmetry group."""

    name: str
    factor: Factor
    kept: Tensor = field(repr=False)  # bool, [*sizes of the axes it depends on, size]
    coupled: bool  # a norm, a softmax or a mean runs over its units
    reason: str = ""  # why none of its units are removed

    @property
    def axis(self) -> Axis:
        assert self.factor.axis is not None
        return self.factor.axis

    @property
    def size(self) -> int:
        """How many units are left, of `factor.size`."""
        return int(self.kept.reshape(-1, self.factor.size)[0].sum())

    @property
    def removed(self) -> Tensor:
        """The units that go, `[copies, number]`."""
        table = ~self.kept.reshape(-1, self.factor.size)
        return table.nonzero()[:, 1].reshape(len(table), -1)


@dataclass(frozen=True, eq=False)
class PrunePlan:
    """Which units of which factor go, and what that saves; made by `gmn.prune_plan`."""

    graph: ParameterGraph
    factors: tuple[PlannedFactor, ...]

    @cached_property
    def subset(self) -> Subset:
        """The units that are kept, along each axis that is cut."""
        return Subset({own.axis: own.kept for own in self.factors if not bool(own.kept.all())})

    @property
    def pruned(self) -> tuple[PlannedFactor, ...]:
        """The factors that lose units."""
        return tuple(own for own in self.factors if own.size < own.factor.size)

    @property
    def coupled(self) -> tuple[str, ...]:
        """The factors over whose units a norm, a softmax or a mean runs, so that removing some changes it."""
        return tuple(own.name for own in self.factors if own.coupled)

    @cached_property
    def parameters(self) -> tuple[int, int]:
        """Elements of the parameters and buffers on edges, before and after."""
        return count_parameters(self.graph, Subset({})), count_parameters(self.graph, self.subset)

    @cached_property
    def operations(self) -> tuple[int, int]:
        """Multiplications of matrix products and convolutions on the example, before and after."""
        return count_operations(self.graph, Subset({})), count_operations(self.graph, self.subset)

    def __getitem__(self, name: str) -> PlannedFactor:
        found = next((own for own in self.factors if own.name == name), None)
        if found is None:
            raise KeyError(f"no factor '{name}'; there are {', '.join(own.name for own in self.factors)}")
        return found

    def table(self) -> Table:
        rows = [
            (
                own.name,
                own.factor.kind,
                str(own.factor.size),
                str(own.size),
                str(own.factor.copies),
                "coupled" if own.coupled else "",
                own.reason,
            )
            for own in self.factors
        ]
        header = ("factor", "kind", "size", "kept", "copies", "", "why it stays")
        return Table(f"Plan for {self.graph.name}", header, rows, right=("size", "kept", "copies"))

    def __str__(self) -> str:
        lines = [self.table().text()]
        for what, (before, after) in (("parameters", self.parameters), ("operations", self.operations)):
            share = f" ({1 - after / before:.0%} less)" if before else ""
            lines.append(f"{what}: {before:,} -> {after:,}{share}")
        if not self.factors:
            lines.append("nothing can be removed: all units are inputs or outputs, or fixed by an operation")
        elif not self.pruned:
            lines.append("nothing is removed")
        return "\n".join(lines)


def prune_plan(
    graph: ParameterGraph,
    model: nn.Module,
    amount: Amount = 0.5,
    importance: Importance | Mapping[str, Tensor] = "magnitude",
    *,
    scope: Literal["factor", "global"] = "factor",
    target: Literal["units", "parameters", "operations"] = "units",
    minimum: int | Mapping[str, int] = 1,
    multiple_of: int = 1,
    exclude: str | Sequence[str] = (),
    coupled: bool = True,
    loss: Loss | None = None,
    generator: torch.Generator | None = None,
) -> PrunePlan:
    """Plan which units of a network to remove; `gmn.prune` carries the plan out.

    >>> import torch, graph_metanetworks as gmn
    >>> model = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    >>> plan = gmn.prune_plan(gmn.trace(model, torch.randn(1, 3)), model, amount=0.5)
    >>> [(factor.name, factor.factor.size, factor.size) for factor in plan.factors]
    [('0', 8, 4)]
    >>> plan.parameters
    (50, 26)

    Args:
        amount: the share of units to remove, or of parameters or operations with another `target`; a dict
            from patterns of names to shares prunes only the factors that match.
        importance: how units are ranked: "magnitude" (the norm of all weights of a unit), "l1", "batch-norm"
            (the scales of batch norms), "taylor" or "gradient" (these need `loss`), "random"; or your own
            scores by factor, `[size]` or `[*outer sizes, size]`.
        scope: rank units within each "factor", or all of them together ("global"), each relative to the
            mean of its factor.
        minimum: units that every factor keeps, or a dict from patterns of names to numbers.
        multiple_of: round sizes up to a multiple.
        exclude: patterns of names of factors, node groups or parameters that keep all units.
        coupled: whether to prune factors over whose units a norm runs.
        loss: a function from a network to its loss, whose gradients "taylor" and "gradient" read.
    """
    amounts = amount if isinstance(amount, Mapping) else {"*": amount}
    exclude = [exclude] if isinstance(exclude, str) else exclude
    _check(amounts, minimum, multiple_of, scope, target)
    limits, coupling = Limits(graph), coupled_axes(graph)
    names = factor_names(graph)
    factors = [factor for factor in graph.symmetry.factors if factor.axis in names]
    _check_patterns(names, factors, [*exclude, *(p for p in amounts if p != "*"), *_patterns(minimum)])
    for factor in factors:
        axis = factor.axis
        assert axis is not None
        if any(_matches(pattern, names[axis], factor) for pattern in exclude):
            limits.freeze(axis, "excluded")
        elif axis in coupling and not coupled:
            limits.freeze(axis, "coupled by a norm")
        elif not any(_matches(pattern, names[axis], factor) for pattern in amounts):
            limits.freeze(axis, "not chosen")
    scores = _scores(graph, model, importance, names, loss=loss, generator=generator)

    def planned(scale: float) -> PrunePlan:
        while True:
            choices = [
                Choice(
                    factor.axis,
                    scores[factor.axis],
                    min(1.0, scale * _first(amounts, names[factor.axis], factor, 0.0)),
                    _first(minimum, names[factor.axis], factor, 1),
                )
                for factor in factors
                if factor.axis is not None
            ]
            kept = choose(choices, limits, multiple_of, scope)
            subset = Subset({axis: table for axis, table in kept.items() if not bool(table.all())})
            refused = refused_axes(graph, subset)
            if not refused:
                break
            for axis, why in refused.items():
                limits.freeze(axis, why)
        by_axis = {choice.axis: choice for choice in choices}
        own = [
            PlannedFactor(
                names[f.axis],
                f,
                kept[f.axis],
                f.axis in coupling,
                limits.frozen.get(f.axis)
                or ("" if not bool(kept[f.axis].all()) else why_kept(by_axis[f.axis], multiple_of, scope)),
            )
            for f in factors
            if f.axis is not None
        ]
        return PrunePlan(graph, tuple(own))

    if target != "units":
        return _met(planned, target, max(amounts.values()))
    plan = planned(1.0)
    held = [own for own in plan.factors if own.reason.startswith((MINIMUM, MULTIPLE))]
    if held and not plan.pruned:
        largest = max(held, key=lambda own: own.factor.size)
        raise PruneError(
            f"nothing can be removed from {graph.name}: '{largest.name}', the largest factor that may lose "
            f"units, has {largest.factor.size}, and {largest.reason}. Lower minimum or multiple_of, or raise "
            "the amount."
        )
    return plan


def _met(planned: Any, target: str, amount: float) -> PrunePlan:
    """Find the share of units with which a share of parameters or operations goes."""
    low, high = 0.0, 1 / max(amount, 1e-9)
    plan = planned(high)

    def saved(plan: PrunePlan) -> float:
        before, after = plan.parameters if target == "parameters" else plan.operations
        return 1 - after / max(before, 1)

    if saved(plan) < amount:
        raise PruneError(
            f"{target} cannot be reduced by {amount:.0%}: with the smallest allowed sizes it is "
            f"{saved(plan):.0%}. Lower the amount or the minimum, or exclude fewer factors."
        )
    for _ in range(STEPS):
        middle = (low + high) / 2
        found = planned(middle)
        if saved(found) >= amount:
            high, plan = middle, found
        else:
            low = middle
    return plan


def factor_names(graph: ParameterGraph) -> dict[Axis, str]:
    """Return a name for each factor that weights lie along: the first module on it, and its kind."""
    names: dict[Axis, str] = {}
    taken: Counter[str] = Counter()
    prunable = [f for f in graph.symmetry.factors if f.parameters and f.axis is not None]
    made = {f.axis: f.parameters[0][0].rpartition(".")[0] or f.parameters[0][0] for f in prunable}
    for factor in prunable:
        assert factor.axis is not None
        name = made[factor.axis]
        name = name if factor.kind == "channels" else f"{name} {factor.kind}"
        taken[name] += 1
        names[factor.axis] = name if taken[name] == 1 else f"{name} #{taken[name]}"
    return names


def _scores(
    graph: ParameterGraph,
    model: nn.Module,
    importance: str | Mapping[str, Tensor],
    names: Mapping[Axis, str],
    **options: Any,
) -> dict[Axis, Tensor]:
    if isinstance(importance, str):
        scores = Scores(graph, model, importance, **options)
        return {axis: scores.of(axis) for axis in names}
    unknown = sorted(set(importance) - set(names.values()))
    if unknown:
        raise PruneError(f"there is no factor '{unknown[0]}'; there are {', '.join(names.values())}.")
    default = Scores(graph, model, "magnitude")
    found = {}
    for axis, name in names.items():
        if name not in importance:
            found[axis] = default.of(axis)
            continue
        shape = [*(parent.size for parent in ordered_parents(axis)), axis.size]
        own = torch.as_tensor(importance[name]).detach().double().cpu()
        if bool(own.isnan().any()):
            raise PruneError(f"some scores of '{name}' are NaN, so its units cannot be ranked.")
        if list(own.shape) not in (shape, shape[-1:]):
            raise PruneError(
                f"the scores of '{name}' have shape {list(own.shape)}, but it has {shape[-1]} units: "
                f"pass {shape[-1:]}" + (f" or {shape}." if len(shape) > 1 else ".")
            )
        found[axis] = own.expand(shape)
    return found


def _matches(pattern: str, name: str, factor: Factor) -> bool:
    known = [name, *(group.name for group in factor.groups), *(own for own, _ in factor.parameters)]
    return any(fnmatchcase(own, pattern) for own in known)


def _first(values: Any, name: str, factor: Factor, default: Any) -> Any:
    if not isinstance(values, Mapping):
        return values
    return next((value for pattern, value in values.items() if _matches(pattern, name, factor)), default)


def _patterns(values: Any) -> list[str]:
    return list(values) if isinstance(values, Mapping) else []


def _check_patterns(names: Mapping[Axis, str], factors: Sequence[Factor], patterns: Sequence[str]) -> None:
    for pattern in patterns:
        if not any(_matches(pattern, names[f.axis], f) for f in factors if f.axis is not None):
            raise PruneError(
                f"no factor is called '{pattern}', and no node group or parameter along one. There are: "
                f"{', '.join(names.values()) or 'none'}."
            )


def _check(amounts: Mapping[str, float], minimum: Any, multiple_of: int, scope: str, target: str) -> None:
    for share in amounts.values():
        if not isinstance(share, int | float) or not 0 <= share < 1:
            raise PruneError(
                f"amount={share!r} is not a share between 0 and 1: 0.5 removes half, 1 would leave nothing."
            )
    least = minimum.values() if isinstance(minimum, Mapping) else [minimum]
    if not all(isinstance(number, int) and number >= 1 for number in (*least, multiple_of)):
        raise PruneError("minimum and multiple_of are numbers of units, and at least 1.")
    if scope not in ("factor", "global"):
        raise PruneError(f"scope={scope!r} is neither 'factor' nor 'global'.")
    if target not in ("units", "parameters", "operations"):
        raise PruneError(f"target={target!r} is none of units, parameters, operations.")
