"""Say why a recording cannot be run again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch._ops import OpOverload

from graph_metanetworks.trace.record.operation import Escape, Operation, TensorRef, leaves, refs
from graph_metanetworks.trace.replay.memory import strided_index

if TYPE_CHECKING:
    from graph_metanetworks.trace.replay.memory import Sources
    from graph_metanetworks.trace.replay.recording import Recording

REMEDY = "Let the module run instead: graph = graph.with_module(model)."
# arguments that switch randomness off
OFF = {"train": False, "training": False, "dropout_p": 0.0}
PLAIN = (bool, int, float, complex, str, torch.dtype, torch.device, torch.layout, torch.memory_format)


@dataclass(frozen=True, slots=True)
class Opaque:
    """An argument that is neither a number nor a tensor, such as packed weights of a quantised layer."""

    type_name: str


def simplified(value: Any) -> Any:
    """Return an argument that can be pickled."""
    if isinstance(value, torch.Size):
        return tuple(value)
    return value if value is None or isinstance(value, (TensorRef, *PLAIN)) else Opaque(type(value).__name__)


def place(operation: Operation) -> str:
    """Name an operation and the module that called it."""
    module = f"in '{operation.path}'" if operation.path else "in the network itself"
    return f"{operation.func}, called {module},"


def refusal(recording: Recording, operations: Sequence[Operation], sources: Sequence[Sources]) -> str:
    """Return why the operations cannot be run again, or an empty string."""
    for operation, depends in zip(operations, sources, strict=True):
        why = _unrepeatable(operation, bool(depends))
        if why:
            return f"the graph cannot run itself: {place(operation)} {why}. {REMEDY}"
        for ref in operation.inputs:
            why = recording.constants.missing.get(ref.key)
            if why:
                what = f"{place(operation)} reads a tensor of shape {ref.shape} that {why}"
                return f"the graph cannot run itself: {what}. {REMEDY}"
    for key in recording.outputs:
        if key in recording.constants.missing:
            return f"the graph cannot run itself: an output {recording.constants.missing[key]}. {REMEDY}"
    return ""


def _unrepeatable(operation: Operation, depends: bool) -> str:
    func = operation.func
    if isinstance(func, Escape):
        return (
            "hands values to Python, where they cannot be followed"
            if depends or refs(operation.outputs)
            else ""
        )
    if not isinstance(func, OpOverload):
        return "is not an operation of PyTorch"
    opaque = [x for x in leaves((operation.args, operation.kwargs)) if isinstance(x, Opaque)]
    if opaque:
        return f"takes an object of type {opaque[0].type_name}, which is not part of the state dict"
    given = operation.arguments
    is_off = any(name in given and given[name] == off for name, off in OFF.items())
    if torch.Tag.nondeterministic_seeded in func.tags and not is_off:
        return "draws random numbers"
    if func is torch.ops.aten.as_strided.default and bool((strided_index(operation) < 0).any()):
        return "reads memory that its argument does not show"
    return ""
