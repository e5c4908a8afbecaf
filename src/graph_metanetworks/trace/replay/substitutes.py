"""What to call instead of a recorded operation, where repeating it word for word would be wrong or slow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from graph_metanetworks.trace.record.operation import Operation, refs
from graph_metanetworks.trace.replay.memory import Memory, all_writes, functional_form, strided_index

aten = torch.ops.aten
Call = tuple[Callable, tuple, dict[str, Any]]


def substituted(operation: Operation, memory: Memory) -> Call:
    """Return the function and the arguments that repeat an operation."""
    func, args, kwargs = operation.func, operation.args, operation.kwargs
    (first, *_) = refs(operation.outputs)
    if torch.Tag.inplace_view in func.tags:  # the tensor of the caller keeps its shape
        return getattr(aten, func._schema.name.split("::")[1].removesuffix("_")), args, kwargs
    writes = all_writes(operation)
    if writes and writes[0].storage not in memory.written:
        return _functional(operation), args, kwargs
    if func is aten.view.default and first.storage not in memory.written:
        return aten.reshape.default, args, kwargs  # strides may differ, above all under vmap
    if func is aten.as_strided.default and first.storage not in memory.written:
        index = strided_index(operation)
        return lambda value: value.reshape(-1)[index.to(value.device)], args[:1], {}
    if func in BATCH_NORMS and not operation.arguments.get("training"):
        given = operation.arguments
        names = ("input", "weight", "bias", "running_mean", "running_var", "eps")
        return _batch_norm, tuple(given[name] for name in names), {}
    if not operation.inputs:  # what the defaults were when the network was traced
        known = {argument.name for argument in func._schema.arguments}
        explicit = {"dtype": first.dtype, "device": torch.device("cpu")}
        return func, args, kwargs | {name: value for name, value in explicit.items() if name in known}
    return func, args, kwargs


def _functional(operation: Operation) -> Callable:
    """Return an in-place operation as a function.

    Gradients need the values from before, and under vmap a tensor that all networks share cannot be written.
    """
    if operation.func is aten.copy_.default:
        return _copied
    form = functional_form(operation)
    assert isinstance(form, OpOverload)

    def run(target: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        result = form(target, *args, **kwargs)
        return result if result.dtype == target.dtype else result.to(target.dtype)

    return run


def _copied(target: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
    return source.to(dtype=target.dtype, device=target.device).expand(target.shape).clone()


BATCH_NORMS = (aten.native_batch_norm.default, aten._native_batch_norm_legit_no_training.default)


def _batch_norm(
    value: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    mean: Tensor,
    variance: Tensor,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Apply a batch norm in evaluation mode; unlike the kernel it has gradients for its statistics."""
    scale = (variance + eps).rsqrt()
    scale = scale if weight is None else scale * weight
    shift = -mean * scale if bias is None else bias - mean * scale
    shape = (-1, *(1 for _ in value.shape[2:]))
    nothing = mean.new_empty(0)
    return torch.addcmul(shift.reshape(shape), value, scale.reshape(shape)), nothing, nothing
