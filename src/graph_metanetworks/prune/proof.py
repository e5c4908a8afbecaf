"""Prove on an example, in float64, that a network was pruned as planned."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor, fx, nn

from graph_metanetworks.errors import PruneError
from graph_metanetworks.prune.double import Double, exactly
from graph_metanetworks.prune.module import Decision, ModuleResizer
from graph_metanetworks.prune.plan import PrunePlan
from graph_metanetworks.prune.program import CheckedRun, ProgramBuilder
from graph_metanetworks.prune.resize import described
from graph_metanetworks.prune.zeroed import disturbed, zeroed
from graph_metanetworks.symmetry.subsets import Subset
from graph_metanetworks.testing.function import difference

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


@dataclass(eq=False)
class Prover:
    """Prune a network in float64, as a program and as a module, and compare."""

    model: nn.Module
    plan: PrunePlan
    double: Double
    refusal: str = ""  # why there is no program
    decision: frozenset[Decision] | None = None  # the attributes that the module needs; None: no module
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
            traced = self.double.run_program(self.program(Subset({})))
        except PruneError as error:
            self.refusal = str(error)
            return
        self.double.choose_outputs(first, traced)
        self.tolerance = max(TOLERANCE, 10 * difference(traced, self.double.run(self.double.model)))

    def program(self, subset: Subset, weights: dict | None = None) -> fx.GraphModule:
        resizer = ModuleResizer(self.double.model, self.double.graph, subset)
        own = self.double.weights if weights is None else weights
        return ProgramBuilder(self.double.graph, subset, own, resizer.submodule, double=True).build()

    # -------------------------------------------------------------- the pruned network

    @cached_property
    def pruned(self) -> list[Tensor] | None:
        """The outputs of the pruned program, if there is one."""
        if self.refusal:
            return None
        try:
            return self.double.run_program(self.program(self.plan.subset))
        except PruneError as error:
            self.refusal = str(error)
            return None

    def find_module(self) -> float | None:
        """Find the attributes with which the resized module computes what the program does."""
        resizer = ModuleResizer(self.double.model, self.double.graph, self.plan.subset)
        for decision in resizer.variants():
            try:
                found = self.double.run(resizer.resized(decision, self.double.model))
            except Exception as error:
                failure = f"{type(error).__name__}: {error}"
            else:
                agreement = self._agreement(found)
                if agreement is None or agreement <= self.tolerance:
                    self.decision = decision
                    return agreement
                failure = f"its outputs differ from those of the program by {agreement:.0e}"
            self.module_failure = self.module_failure or failure
        return None

    def _agreement(self, found: list[Tensor]) -> float | None:
        expected = self.pruned
        if expected is None:
            return None
        if [own.shape for own in found] != [own.shape for own in expected]:
            return float("inf")
        return difference(expected, found)

    def outputs(self, subset: Subset, weights: dict) -> list[Tensor]:
        """Return the outputs of the pruned network: of the program, or of the module if there is none."""
        if not self.refusal:
            return self.double.run_program(self.program(subset, weights))
        self.double.run_with(weights)
        resizer = ModuleResizer(self.double.model, self.double.graph, subset)
        try:
            return self.double.run(resizer.resized(self.decision or frozenset(), self.double.model))
        finally:
            self.double.run_with(self.original)

    @cached_property
    def original(self) -> dict[str, Tensor]:
        return {name: value.detach().clone() for name, value in self.double.weights.items()
                if isinstance(value, Tensor)}

    # -------------------------------------------------------------- proofs

    def removal(self) -> float | None:
        """Remove units whose outgoing weights are zero, which changes nothing unless something couples them."""
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
        weights = zeroed(self.double.graph, subset, self.original)
        if self.refusal:
            expected = self.double.run_with(weights)
        else:
            expected = self.double.run_program(self.program(Subset({}), weights))
        error = difference(expected, self.outputs(subset, weights))
        if not error <= TOLERANCE:
            raise PruneError(self._where(subset, weights, error))
        return error

    def _has_no_influence(self, axes: list) -> bool:
        """Return whether the network ignores units whose outgoing weights are zero, whatever comes in."""
        subset = self.plan.subset.restricted(axes)
        weights = zeroed(self.double.graph, subset, self.original)
        others = disturbed(self.double.graph, subset, weights, torch.Generator().manual_seed(0))
        if self.refusal:
            before, after = self.double.run_with(weights), self.double.run_with(others)
            self.double.run_with(self.original)
        else:
            before, after = (
                self.double.run_program(self.program(Subset({}), own)) for own in (weights, others)
            )
        return difference(before, after) <= TOLERANCE

    def commutes(self) -> float:
        """Prune a permuted copy by the permuted plan, which is the same function."""
        automorphism = self.double.graph.symmetry.sample(torch.Generator().manual_seed(0))
        permuted = automorphism.apply(self.original)
        expected = self.outputs(self.plan.subset, self.original)
        error = difference(expected, self.outputs(self.plan.subset.permuted(automorphism), permuted))
        if not error <= TOLERANCE:
            raise PruneError(
                f"a permuted copy of {self.double.graph.name}, pruned by the permuted plan, computes something "
                f"else (relative difference {error:.0e}). This is a bug; please report it."
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
        runs = [CheckedRun(self.program(own, weights), keep=True) for own in (Subset({}), subset)]
        with exactly(0):
            for run in runs:
                run.run(*self.double.inputs)
        whole, small = ({n.meta["number"]: (n, v) for n, v in run.env.items() if "number" in n.meta}
                        for run in runs)
        for number, (node, value) in small.items():
            if not isinstance(value, Tensor) or not isinstance(whole[number][1], Tensor):
                continue
            kept = subset.cut(whole[number][1], node.meta["dims"][0])
            if kept.shape != value.shape or difference([kept], [value]) > 100 * TOLERANCE:
                return f"{what}, first in {described(node.meta['operation'])} This is a bug; please report it."
        return f"{what}. This is a bug; please report it."
