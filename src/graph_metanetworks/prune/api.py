"""Carry out a plan: `gmn.prune`."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import fx, nn
from torch.nn.modules.batchnorm import _BatchNorm

from graph_metanetworks.errors import PruneError
from graph_metanetworks.prune.batch import Batch, FixedBatch
from graph_metanetworks.prune.double import Double
from graph_metanetworks.prune.module import ModuleResizer, changed_attributes
from graph_metanetworks.prune.plan import PrunePlan
from graph_metanetworks.prune.program import ProgramBuilder
from graph_metanetworks.prune.proof import Proof, Prover

Form = Literal["auto", "module", "program"]


@dataclass(frozen=True)
class Pruning:
    """How a network was pruned; `small.pruning` of the result of `gmn.prune`."""

    form: str  # "module", of the original class, or "program", rebuilt from its operations
    reason: str  # why it is a program
    fixed_batch: str  # why a program only takes as many examples as the network was traced with; mostly empty
    parameters: tuple[int, int]  # before and after
    operations: tuple[int, int]
    proof: Proof
    plan: PrunePlan = field(repr=False, compare=False)
    example: tuple[tuple, dict[str, Any]] = field(repr=False, compare=False)
    attributes: Mapping[str, Mapping[str, Any]] = field(
        repr=False, default_factory=dict
    )  # changed, by module

    def __deepcopy__(self, memo: Any) -> Pruning:
        return self  # it never changes

    def __str__(self) -> str:
        what = "a module of the same class" if self.form == "module" else f"a program: {self.reason}"
        before, after = self.parameters
        if self.fixed_batch:
            what += f"\nbatches have the size of the example's: {self.fixed_batch}"
        return f"{what}\nparameters: {before:,} -> {after:,}\nproved: {self.proof}"


def prune(
    model: nn.Module,
    plan: PrunePlan,
    /,
    *args: Any,
    inplace: bool = False,
    form: Form = "auto",
    **kwargs: Any,
) -> nn.Module:
    """Return a smaller network; other arguments are exactly those of `model(...)`.

    >>> import torch, graph_metanetworks as gmn
    >>> model = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    >>> x = torch.randn(5, 3)
    >>> small = gmn.prune(model, gmn.prune_plan(gmn.trace(model, x), model, amount=0.5), x)
    >>> small[0]
    Linear(in_features=3, out_features=4, bias=True)
    >>> small.pruning.form
    'module'

    Args:
        inplace: resize `model` itself. By default it is left as it is.
        form: "module" for a network of the same class, "program" for one that is rebuilt from the recorded
            operations and runs without the original code, or "auto" for the first of them that works.
    """
    _check(model, plan, inplace, form)
    double = Double(model, plan.graph, args, kwargs)
    prover = Prover(model, plan, double)
    prover.check_network()
    expected = prover.pruned
    agreement = prover.find_module()
    if expected is None and prover.decision is None:
        raise PruneError(
            f"{type(model).__name__} cannot be pruned. Resizing its layers is not enough: "
            f"{prover.module_failure} Its recorded operations cannot be used either: {prover.refusal}"
            f"{_advice(plan)}"
        )
    removal = prover.removal()
    proof = Proof(removal, prover.commutes(), agreement, *prover.factors)
    chosen = "module" if prover.decision is not None and form != "program" else "program"
    if form == "module" and chosen == "program":
        raise PruneError(
            f"resizing the layers of {type(model).__name__} is not enough: {prover.module_failure} Use "
            'form="program" or "auto".'
        )
    if chosen == "program" and expected is None:
        raise PruneError(f"the recorded operations cannot be used: {prover.refusal}")
    batch, fixed = _batch(prover, args, kwargs) if chosen == "program" else (None, "")
    small = _module(model, plan, prover) if chosen == "module" else _program(model, plan, batch)
    reason = "" if chosen == "module" else prover.module_failure or "asked for"
    changed = changed_attributes(model, small) if chosen == "module" else {}
    saved = plan.parameters, plan.operations
    pruning = Pruning(chosen, reason, fixed, *saved, proof, plan, (args, kwargs), changed)
    if inplace:
        if chosen == "program":
            raise PruneError(f"inplace=True needs a module of the same class, but {reason}")
        _take_over(model, small)
        small = model
    small.pruning = pruning  # pyright: ignore[reportArgumentType]
    return small


def _module(model: nn.Module, plan: PrunePlan, prover: Prover) -> nn.Module:
    assert prover.decision is not None
    return _separate(model, ModuleResizer(model, plan.graph, plan.subset).resized(prover.decision))


def _batch(prover: Prover, args: tuple, kwargs: dict[str, Any]) -> tuple[Batch | None, str]:
    try:
        return prover.batch(args, kwargs), ""
    except FixedBatch as error:
        return None, str(error)


def _program(model: nn.Module, plan: PrunePlan, batch: Batch | None) -> fx.GraphModule:
    resizer = ModuleResizer(model, plan.graph, plan.subset)
    weights = dict(model.state_dict(keep_vars=True))
    return _separate(
        model,
        ProgramBuilder(plan.graph, plan.subset, weights, resizer.submodule, batch=batch).build().module(),
    )


def _separate(model: nn.Module, small: Any) -> Any:
    """Copy the weights that a smaller network still shares with the original, but not those that were cut."""
    theirs = {tensor.untyped_storage().data_ptr() for tensor in model.state_dict().values()}
    own = (*small.parameters(), *small.buffers())
    kept = {id(t): t for t in own if t.untyped_storage().data_ptr() not in theirs}
    return copy.deepcopy(small, kept)


def _advice(plan: PrunePlan) -> str:
    within = [own.name for own in plan.pruned if own.factor.within]
    return f" Keep the sizes within heads: prune_plan(..., exclude={within[:2]!r}, ...)." if within else ""


def _take_over(model: nn.Module, small: nn.Module) -> None:
    """Give a module the weights and attributes of a resized copy."""
    resized = dict(small.named_modules())
    for path, module in list(model.named_modules()):
        own = {name: value for name, value in vars(resized[path]).items() if name != "_modules"}
        vars(module).update(own)


def _check(model: nn.Module, plan: PrunePlan, inplace: bool, form: str) -> None:
    if form not in ("auto", "module", "program"):
        raise PruneError(f"form={form!r} is none of auto, module, program.")
    if any(isinstance(module, _BatchNorm) and module.training for module in model.modules()):
        raise PruneError(
            f"{type(model).__name__} has batch norms in training mode, whose outputs depend on the other "
            "examples of a batch. Call model.eval() first."
        )
    if any(value.device.type == "meta" for value in model.state_dict().values() if torch.is_tensor(value)):
        raise PruneError(
            f"the weights of {type(model).__name__} have no values (meta device), so nothing can be cut. "
            "A plan can be made without values; load weights to carry it out."
        )
    known = model.state_dict()
    for parameter in plan.graph.parameters:
        if parameter.name not in known or tuple(known[parameter.name].shape) != parameter.shape:
            raise PruneError(
                f"'{parameter.name}' of {type(model).__name__} is not what was traced "
                f"({list(parameter.shape)}). Make the plan with a graph of this network."
            )
