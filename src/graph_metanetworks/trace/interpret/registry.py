"""The registry of operation rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from graph_metanetworks.trace.interpret.interpreter import Call
    from graph_metanetworks.trace.interpret.value import Value

Rule = Callable[["Call"], "Value | list[Value]"]

RULES: dict[str, Rule] = {}
POINTWISE: list[Rule] = []  # the rules for everything that PyTorch tags as pointwise or as a reduction
REDUCTION: list[Rule] = []


def rule(*operations: Any) -> Callable[[Rule], Rule]:
    """Register how an operation treats axes and nodes; `operations` as `torch.ops.aten.mm` or `"my_lib::op"`.

    The function gets a `Call` (arguments by name, values of tensors, the graph under construction) and
    returns the `Value` of the result, or a list of them. An operation can have only one rule.
    """
    names = [operation_name(operation) for operation in operations]
    known = [name for name in names if name in RULES]
    if known:
        raise ValueError(
            f"{', '.join(known)} already has a rule ({RULES[known[0]].__module__}); "
            "remove it first with gmn.remove_rule if you mean to replace it."
        )

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


def remove_rule(operation: Any) -> None:
    """Remove the rule of an operation, so that another can take its place."""
    del RULES[operation_name(operation)]


def operation_name(operation: Any) -> str:
    """Return the qualified name, `aten::mm` for `torch.ops.aten.mm`, its overloads, and `"mm"`.

    >>> operation_name(torch.ops.aten.mm.default)
    'aten::mm'
    """
    if isinstance(operation, torch._ops.OpOverload):
        return operation._schema.name
    if isinstance(operation, torch._ops.OpOverloadPacket):
        return operation._qualified_op_name
    return operation if "::" in operation else f"aten::{operation}"


def functional_name(func: Any) -> str:
    """Return the name of an operation without the underscore of its in-place form."""
    name = func._schema.name
    in_place = func._schema.is_mutable and name.endswith("_") and not name.endswith("__")
    return name[:-1] if in_place else name


def find_rule(func: Any) -> Rule | None:
    found = RULES.get(functional_name(func))
    if found is None and torch.Tag.pointwise in func.tags:
        return POINTWISE[0]
    if found is None and torch.Tag.reduction in func.tags:
        return REDUCTION[0]
    return found


def has_rule(func: Any) -> bool:
    return find_rule(func) is not None or torch.Tag.inplace_view in func.tags
