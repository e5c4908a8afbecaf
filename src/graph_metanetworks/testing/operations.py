"""Oracle: each operation of a network is equivariant."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from graph_metanetworks.symmetry.automorphism import Automorphism
from graph_metanetworks.symmetry.group import Symmetry
from graph_metanetworks.testing.function import KeepDouble, default_double, difference, in_double
from graph_metanetworks.trace.interpret.interpreter import where
from graph_metanetworks.trace.record.operation import Escape, Operation, TensorRef, map_leaves, refs, tensors
from graph_metanetworks.trace.record.tape import plain_kernels
from graph_metanetworks.trace.tracer import Tracer

CANCELLED = 1e-8  # results this small against the inputs are rounding errors: the mean of centred numbers


def assert_operations_equivariant(
    model: nn.Module,
    /,
    *args: Any,
    tracer: Tracer | None = None,
    tolerance: float = 1e-7,
    **kwargs: Any,
) -> int:
    """Permute every operation's inputs by a sampled symmetry, run it again and compare the outputs.

    This is the unit test of every rule. Return the number of operations that were checked.
    """
    double, args, kwargs = in_double(model, args, kwargs)
    with default_double(), KeepDouble():
        _, interpreter = (tracer or Tracer()).record(double, args, kwargs, snapshot=True)
    log = interpreter.log or []
    everything = {
        f"{i} {key}": tuple(value.dims)
        for i, (_, before, after) in enumerate(log)
        for key, value in [*before.items(), *((-k - 1, v) for k, v in after.items())]
    }
    sample = Symmetry(everything, (), 0).sample(torch.Generator().manual_seed(0))
    checked = 0
    with plain_kernels():
        for operation, before, after in log:
            if not _can_run_again(operation):
                continue
            error = _violation(operation, before, after, sample)
            assert error <= tolerance, (
                f"the rule for {operation.func} is wrong {where(operation)}: permuting the inputs does not "
                f"permute the output (relative error {error:.1e})"
            )
            checked += 1
    return checked


# uninitialised results, and views of memory that a copy does not have
UNREPEATABLE = ("empty", "new_empty", "empty_like", "empty_strided", "new_empty_strided", "as_strided")


def _can_run_again(operation: Operation) -> bool:
    if isinstance(operation.func, nn.Module | Escape):
        return False
    tags = operation.func.tags
    name = operation.func._schema.name.split("::")[1]
    all_refs = operation.inputs + refs(operation.outputs)
    return (
        torch.Tag.inplace_view not in tags
        and torch.Tag.nondeterministic_seeded not in tags
        and name not in UNREPEATABLE
        and bool(refs(operation.outputs))
        and all(0 not in ref.shape and ref.value.layout == torch.strided for ref in all_refs)
    )


def _violation(operation: Operation, before, after, sample: Automorphism) -> float:
    def permuted(leaf: Any) -> Any:
        return sample.permute(leaf.value, before[leaf.key].dims) if isinstance(leaf, TensorRef) else leaf

    args, kwargs = map_leaves(permuted, (operation.args, operation.kwargs))
    with KeepDouble():
        result = operation.func(*args, **kwargs)
    noise = CANCELLED * max((_size(ref.value) for ref in operation.inputs), default=0.0)
    largest = 0.0
    for ref, actual in zip(refs(operation.outputs), tensors(result), strict=True):
        expected = sample.permute(ref.value, after[ref.key].dims)
        largest = max(largest, difference([_real(expected)], [_real(actual)], smallest=noise))
    return largest


def _size(tensor: Tensor) -> float:
    """Return the largest entry. Huge ones are masks, whose size says nothing about rounding elsewhere."""
    sizes = _real(tensor).abs()
    return float(sizes.where(sizes < 1e9, 0).max()) if sizes.numel() else 0.0


def _real(tensor: Tensor) -> Tensor:
    tensor = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
    return tensor.double().nan_to_num(0, 0, 0)
