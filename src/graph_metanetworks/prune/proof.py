"""Prove on an example, in float64, that a network was pruned as planned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.utils._pytree import tree_leaves

from graph_metanetworks.errors import PruneError
from graph_metanetworks.prune.double import Double, exactly
from graph_metanetworks.prune.module import Decision, ModuleResizer
from graph_metanetworks.prune.plan import PrunePlan
from graph_metanetworks.prune.program import CheckedRun, Program, ProgramBuilder, recording_of
from graph_metanetworks.prune.resize import described
from graph_metanetworks.prune.zeroed import disturbed, zeroed
from graph_metanetworks.symmetry.axes import variables
from graph_metanetworks.symmetry.subsets import Subset
from graph_metanetworks.testing.function import difference
from graph_metanetworks.trace.interpret.interpreter import OperationAxes
from graph_metanetworks.trace.replay import Recording

TOLERANCE = 1e-9  # relative


@dataclass(frozen=True)
class Proof:
    """What was shown in float64; errors are relative to the largest output, None if it does not apply."""

    removal: float | None  # units without outgoing weights were removed, and the function stayed
    commutes: float | None  # a permuted copy, pruned by the permuted plan, is the same function
    agreement: float | None  # the resized module and the program agree
    uncoupled: tuple[str, ...]  # the factors to which `removal` applies
    coupled: tuple[str, ...]  # the factors to which only the others apply

    def __str__(self) -> str:
        parts = [
            ("units without outgoing weights are removed", self.removal),
            ("pruning commutes with permutations", self.commutes),
            ("module and program agree", self.agreement),
        ]
        return "; ".join(f"{what} ({error:.0e})" for what, error in parts if error is not None)


class SummedUnits(CheckedRun):
    """Look for terms of units to be removed wherever an operation of the unpruned network sums over units."""

    def __init__(self, program: Program, recording: Recording, subset: Subset):
        super().__init__(program)
        self.recording, self.subset, self.found = recording, subset, False

    def run_node(self, n: fx.Node) -> Any:
        if "number" in n.meta and not self.found:
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            axes = self.recording.axes[n.meta["number"]]
            self.found = self._adds(axes, [t for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)])
        return super().run_node(n)

    def _adds(self, axes: OperationAxes, operands: list[Tensor]) -> bool:
        left = {axis for dims in axes.outputs for dim in dims for axis in variables(dim)}
        for axis in self.subset.kept:
            own = self.subset.restricted([axis])
            carrying = [
                (value, dims) for value, dims in zip(operands, axes.used, strict=False) if own.cuts(dims)
            ]
            if axis not in left and carrying:
                terms = [bool(value[~own.mask(dims)].any()) for value, dims in carrying]
                if all(terms):
                    return True
        return False


@dataclass(eq=False)
class Prover:
    """Prune a network in float64, as a program and as a module, and compare."""

    model: nn.Module
    plan: PrunePlan
    double: Double
    refusal: str = ""  # why there is no program
    decision: Decision | None = None  # the attributes that the module needs; None: no module
    module_failure: str = ""
    tolerance: float = TOLERANCE  # of module against program
    factors: tuple[tuple[str, ...], tuple[str, ...]] = field(default=((), ()))

    # -------------------------------------------------------------- the network itself

    def check_network(self) -> None:
        """Check that the network computes the same twice, and what its graph computes."""
        first, second = self.double.run(self.double.model, seed=0), self.double.run(self.double.model, seed=1)
        if len(first) != len(second) or difference(first, second) > TOLERANCE:
            raise PruneError(
                f"{type(self.model).__name__} gives different outputs for the same example, so nothing can "
                "be proved about it. Does it draw random numbers or change a buffer in evaluation mode?"
            )
        try:
            traced = self.double.run_program(self.unpruned)
        except PruneError as error:
            self.refusal = str(error)
            return
        self.double.choose_outputs(first, traced)
        self.tolerance = max(TOLERANCE, 10 * difference(traced, self.double.run(self.double.model)))

    @cached_property
    def unpruned(self) -> Program:
        """The recorded operations as they are, with the weights of the copy in float64."""
        return self.program(Subset({}), self.double.weights)

    def program(self, subset: Subset, weights: Mapping[str, Any]) -> Program:
        def submodule(path: str) -> nn.Module | None:
            return ModuleResizer(self.double.model, self.double.graph, subset).submodule(path)

        with self.double.holding(weights):
            return ProgramBuilder(self.double.graph, subset, weights, submodule, double=True).build()

    # -------------------------------------------------------------- the pruned network

    @cached_property
    def pruned(self) -> list[Tensor] | None:
        """The outputs of the pruned program, if there is one."""
        if self.refusal:
            return None
        try:
            return self.double.run_program(self.program(self.plan.subset, self.double.weights))
        except PruneError as error:
            self.refusal = str(error)
            return None

    def find_module(self) -> float | None:
        """Find the attributes with which the resized module computes what the program does."""
        agreements: list[float | None] = []

        def run(small: nn.Module) -> str:
            try:
                found = self.double.run(small)
            except Exception as error:
                return f"{type(error).__name__}: {error}"
            agreements.append(self._agreement(found))
            error = agreements[-1]
            if error is None or error <= self.tolerance:
                return ""
            return f"its outputs differ from those of the program by {error:.0e} (relative)"

        resizer = ModuleResizer(self.double.model, self.double.graph, self.plan.subset)
        self.decision, self.module_failure = resizer.decide(run)
        return agreements[-1] if self.decision is not None else None

    def _agreement(self, found: list[Tensor]) -> float | None:
        expected = self.pruned
        if expected is None:
            return None
        if [own.shape for own in found] != [own.shape for own in expected]:
            return float("inf")
        return difference(expected, found)

    def outputs(self, subset: Subset, weights: Mapping[str, Any]) -> list[Tensor]:
        """Return the outputs of the pruned network: of the program, or of the module if there is none."""
        if not self.refusal:
            return self.double.run_program(self.program(subset, weights))
        with self.double.holding(weights):
            resizer = ModuleResizer(self.double.model, self.double.graph, subset)
            return self.double.run(resizer.resized(self.decision or {}, self.double.model))

    def unpruned_outputs(self, weights: Mapping[str, Any]) -> list[Tensor]:
        with self.double.holding(weights):
            if self.refusal:
                return self.double.run(self.double.model)
            return self.double.run_program(self.unpruned)

    # -------------------------------------------------------------- proofs

    def removal(self) -> float | None:
        """Remove units whose outgoing weights are zero, which changes nothing unless they are coupled."""
        pruned = self.plan.pruned
        free = [own for own in pruned if not own.coupled]
        coupled = [own for own in pruned if own.coupled]
        if free and not self._has_no_influence([own.axis for own in free]):
            still = [own for own in free if self._has_no_influence([own.axis])]
            coupled += [own for own in free if own not in still]
            free = still if still and self._has_no_influence([own.axis for own in still]) else []
        self.factors = tuple(own.name for own in free), tuple(own.name for own in coupled)
        if not free:
            return None
        subset = self.plan.subset.restricted([own.axis for own in free])
        weights = zeroed(self.double.graph, subset, self.double.weights)
        error = difference(self.unpruned_outputs(weights), self.outputs(subset, weights))
        if not error <= TOLERANCE:
            raise PruneError(self._where(subset, weights, error))
        return error

    def _has_no_influence(self, axes: list) -> bool:
        """Return whether the network ignores units whose outgoing weights are zero, whatever comes in."""
        subset = self.plan.subset.restricted(axes)
        weights = zeroed(self.double.graph, subset, self.double.weights)
        if not self.refusal and self._adds_something(subset, weights):
            return False
        others = disturbed(self.double.graph, subset, weights, torch.Generator().manual_seed(0))
        return difference(self.unpruned_outputs(weights), self.unpruned_outputs(others)) <= TOLERANCE

    def _adds_something(self, subset: Subset, weights: Mapping[str, Any]) -> bool:
        """Return whether some sum over units has a term of a unit to be removed that is not zero."""
        with self.double.holding(weights), exactly(0):
            run = SummedUnits(self.unpruned, recording_of(self.double.graph), subset)
            run.run(*self.double.inputs)
        return run.found

    def commutes(self) -> float:
        """Prune a permuted copy by the permuted plan, which is the same function."""
        automorphism = self.double.graph.symmetry.sample(torch.Generator().manual_seed(0))
        permuted = automorphism.apply(self.double.weights)
        expected = self.pruned
        if expected is None:
            expected = self.outputs(self.plan.subset, self.double.weights)
        error = difference(expected, self.outputs(self.plan.subset.permuted(automorphism), permuted))
        if not error <= TOLERANCE:
            raise PruneError(
                f"a permuted copy of {self.double.graph.name}, pruned by the permuted plan, computes "
                f"something else (relative difference {error:.0e}). This is a bug; please report it."
            )
        return error

    def _where(self, subset: Subset, weights: dict, error: float) -> str:
        """Name the first operation at which the pruned network differs from the original."""
        what = (
            f"removing units whose outgoing weights are zero changes {self.double.graph.name} by {error:.0e} "
            "(relative)"
        )
        if self.refusal:
            return f"{what}. The operation is not known, because {self.refusal}"
        programs = [self.program(own, weights) for own in (Subset({}), subset)]
        runs = [CheckedRun(program, keep=True) for program in programs]
        with exactly(0):
            for run in runs:
                run.run(*self.double.inputs)
        whole, small = (
            {n.meta["number"]: (n, v) for n, v in run.env.items() if "number" in n.meta} for run in runs
        )
        for number, (node, value) in small.items():
            if not isinstance(value, Tensor) or not isinstance(whole[number][1], Tensor):
                continue
            kept = subset.cut(whole[number][1], node.meta["dims"][0])
            if kept.shape != value.shape or difference([kept], [value]) > 100 * TOLERANCE:
                return (
                    f"{what}, first in {described(node.meta['operation'])} This is a bug; please report it."
                )
        return f"{what}. This is a bug; please report it."
