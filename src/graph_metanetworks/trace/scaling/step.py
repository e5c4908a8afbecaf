"""One operation as its rule sees it, and the registry of rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from graph_metanetworks.trace.interpret.registry import functional_name
from graph_metanetworks.trace.record.operation import Operation, TensorRef, refs
from graph_metanetworks.trace.scaling.labels import Labels

Rule = Callable[["Step"], "list[Labels] | None"]
RULES: dict[str, Rule] = {}


@dataclass(frozen=True, eq=False)
class Step:
    """One operation as its rule sees it.

    `mode` is "scale" for positive scales, "sign" for signs, "shift" for what is added. `parity` labels what a
    sine reads: 1 where its argument moves by an odd multiple of pi.
    """

    operation: Operation
    system: Any  # `System`, or `Shifts` in mode "shift"
    mode: str
    value: Callable[[TensorRef], Labels]
    parity: Labels = field(default_factory=Labels)

    def __getitem__(self, argument: str) -> Any:
        return self.operation.arguments[argument]

    def get(self, *arguments: str) -> Any:
        known = self.operation.arguments
        return next((known[name] for name in arguments if name in known), None)

    def labels(self, *arguments: str) -> Labels:
        return self.value(self.get(*arguments))

    @property
    def outs(self) -> list[TensorRef]:
        return refs(self.operation.outputs)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.outs[0].shape


def rule(*names: str) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


def find(operation: Operation, rules: Mapping[str, Rule]) -> Rule | None:
    empty = any(0 in ref.shape for ref in operation.inputs)
    if empty or not isinstance(operation.func, torch._ops.OpOverload):
        return None
    namespace, name = functional_name(operation.func).split("::")
    return rules.get(name) if namespace == "aten" else None
