"""Prove on an example, in float64, that a network was pruned as planned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.utils._pytree import tree_leaves

from graph_metanetworks.errors import PruneError
from graph_metanetworks.prune.batch import Batch, FixedBatch, enlarged
from graph_metanetworks.prune.coupling import CHOOSING
from graph_metanetworks.prune.double import Double, exactly
from graph_metanetworks.prune.limits import Limits
from graph_metanetworks.prune.module import Decision, ModuleResizer
from graph_metanetworks.prune.plan import PlannedFactor, PrunePlan
from graph_metanetworks.prune.program import CheckedRun, Program, ProgramBuilder, recording_of
from graph_metanetworks.prune.resize import described
from graph_metanetworks.prune.zeroed import disturbed, zeroed
from graph_metanetworks.symmetry.axes import variables
from graph_metanetworks.symmetry.subsets import Subset
from graph_metanetworks.testing.function import difference
from graph_metanetworks.trace.interpret.interpreter import OperationAxes
from graph_metanetworks.trace.interpret.registry import functional_name
from graph_metanetworks.trace.replay import Recording

TOLERANCE = 1e-9  # relative
# what stays, weights with zeros for what goes, and what the whole network computes with them
Removal = tuple[Subset, dict[str, Tensor], list[Tensor]]


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
        if "number" in n.meta and not self.found and _may_add(n.target):
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            axes = self.recording.axes[n.meta["number"]]
            self.found = self._adds(axes, [t for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)])
        return super().run_node(n)

    def _adds(self, axes: OperationAxes, operands: list[Tensor]) -> bool:
        left = {axis for dims in axes.outputs for dim in dims for axis in variables(dim)}
        used = {axis for dims in axes.used for dim in dims for axis in variables(dim)}
        for axis in (used - left).intersection(self.subset.kept):
            own = self.subset.restricted([axis])
            carrying = [(t, dims) for t, dims in zip(operands, axes.used, strict=False) if own.cuts(dims)]
            if carrying and all(bool(value[~own.mask(dims)].any()) for value, dims in carrying):
                return True
        return False


def _first(outputs: list[Tensor], count: int) -> list[Tensor]:
    return [output[:count] if output.ndim else output for output in outputs]


def _agree(expected: list[Tensor], found: list[Tensor], tolerance: float) -> bool:
    same = [a.shape for a in expected] == [b.shape for b in found]
    return same and difference(expected, found) <= tolerance


def _may_add(target: Any) -> bool:
    return not (isinstance(target, torch._ops.OpOverload) and functional_name(target) in CHOOSING)


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
        self.tolerance = max(TOLERANCE, 10 * difference(traced, self.double.choose_outputs(first, traced)))

    @cached_property
    def unpruned(self) -> Program:
        """The recorded operations as they are, with the weights of the copy in float64."""
        return self.program(Subset({}), self.double.weights)

    def program(self, subset: Subset, weights: Mapping[str, Any], batch: Batch | None = None) -> Program:
        def submodule(path: str) -> nn.Module | None:
            with self.double.holding(weights):
                return ModuleResizer(self.double.model, self.double.graph, subset).submodule(path)

        builder = ProgramBuilder(self.double.graph, subset, weights, submodule, double=True, batch=batch)
        return builder.build()

    def batch(self, args: tuple, kwargs: dict[str, Any]) -> Batch:
        """Find out how the operations depend on the number of examples; checked with two examples more."""
        graph, double = self.double.graph, self.double
        batch = Batch.of(recording_of(graph), self.model, args, kwargs)
        given, named = enlarged(batch.size, 2, double.args, double.kwargs)
        inputs = enlarged(batch.size, 2, tuple(double.inputs), {})[0]
        whole, small = (
            self.program(subset, double.weights, batch) for subset in (Subset({}), self.plan.subset)
        )
        try:
            found = double.run_program(whole, inputs)
            left = double.run_program(small, inputs)
        except PruneError as error:
            raise FixedBatch(f"with two examples more, {error}") from error
        expected = double.run(double.model, given=(given, named))
        if difference(expected, found) > self.tolerance:
            raise FixedBatch("with two examples more, its operations compute something else")
        independent = _agree(double.run(double.model), _first(expected, batch.size), self.tolerance)
        if independent and not _agree(self.pruned or [], _first(left, batch.size), self.tolerance):
            raise FixedBatch("with two examples more, what is left computes something else")
        return batch

    def unpruned_with(self, weights: Mapping[str, Any]) -> Program:
        """Return the recorded operations as they are, with other weights."""
        own = {name: weights.get(name, value) for name, value in self.unpruned.attributes.items()}
        return replace(self.unpruned, attributes=own)

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
            return (
                f"its outputs differ from those of the program by {error:.0e} (relative). Perhaps its code "
                "computes a number from a size, such as the scale of attention."
            )

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
            return self.double.run(resizer.resized(self.decision or {}))

    def unpruned_outputs(self, weights: Mapping[str, Any]) -> list[Tensor]:
        if not self.refusal:
            return self.double.run_program(self.unpruned_with(weights))
        with self.double.holding(weights):
            return self.double.run(self.double.model)

    # -------------------------------------------------------------- proofs

    def removal(self) -> float | None:
        """Remove units whose outgoing weights are zero, which changes nothing unless they are coupled."""
        pruned = self.plan.pruned
        free = [own for own in pruned if not own.coupled]
        coupled = [own for own in pruned if own.coupled]
        removed = self._without_influence(free)
        if removed is None:
            free = self._with_equal_parts([own for own in free if self._without_influence([own])])
            removed = self._without_influence(free)
            free = free if removed else []
            coupled += [own for own in pruned if own not in (*free, *coupled)]
        self.factors = tuple(own.name for own in free), tuple(own.name for own in coupled)
        if removed is None or not free:
            return None
        subset, weights, expected = removed
        error = difference(expected, self.outputs(subset, weights))
        if not error <= TOLERANCE:
            raise PruneError(self._where(subset, weights, error))
        return error

    def _without_influence(self, factors: Sequence[PlannedFactor]) -> Removal | None:
        """Set the outgoing weights of units to zero; None if the network still depends on the units."""
        subset = self.plan.subset.restricted([own.axis for own in factors])
        weights = zeroed(self.double.graph, subset, self.double.weights)
        expected = self.unpruned_outputs(weights) if self.refusal else self._unless_added(subset, weights)
        if expected is None:
            return None
        others = disturbed(self.double.graph, subset, weights, torch.Generator().manual_seed(0))
        same = difference(expected, self.unpruned_outputs(others)) <= TOLERANCE
        return (subset, weights, expected) if same else None

    def _with_equal_parts(self, factors: list[PlannedFactor]) -> list[PlannedFactor]:
        """Leave out factors that need the size of others, unless all of them are given."""
        limits, axes = Limits(self.double.graph), {own.axis for own in factors}
        cut = set(self.plan.subset.kept)
        return [own for own in factors if cut.intersection(limits.tied(own.axis)) <= axes]

    def _unless_added(self, subset: Subset, weights: Mapping[str, Any]) -> list[Tensor] | None:
        """Return the outputs; None if a sum over units has a term that is not zero of one to be removed."""
        with exactly(0):
            run = SummedUnits(self.unpruned_with(weights), recording_of(self.double.graph), subset)
            found = run.run(*self.double.inputs)
        return None if run.found else list(found) if isinstance(found, tuple) else [found]

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
