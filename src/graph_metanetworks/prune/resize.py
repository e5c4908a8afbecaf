"""Change the arguments of recorded operations that hold sizes, one short rule per operation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from graph_metanetworks.errors import PruneError
from graph_metanetworks.symmetry.axes import Dim
from graph_metanetworks.symmetry.subsets import Subset
from graph_metanetworks.trace.interpret.interpreter import OperationAxes
from graph_metanetworks.trace.interpret.registry import functional_name
from graph_metanetworks.trace.record.operation import Operation, TensorRef, refs

aten = torch.ops.aten
Arguments = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Resized:
    """One operation as its rule sees it: arguments by name, and the axes of its tensors."""

    operation: Operation
    axes: OperationAxes
    subset: Subset

    def __getitem__(self, argument: str) -> Any:
        return self.operation.arguments[argument]

    def dims(self, argument: str) -> list[Dim]:
        """Return the dimensions of a tensor argument."""
        place = next(i for i, ref in enumerate(self.operation.inputs) if ref is self[argument])
        return list(self.axes.used[place])

    @property
    def shape(self) -> list[int]:
        """The new shape of the first result."""
        return list(self.subset.shape(self.axes.outputs[0]))

    def refuse(self, why: str) -> PruneError:
        return PruneError(f"{described(self.operation)} {why}")


# the overload to call, and the arguments that change; those that are `...` are left out
Rule = Callable[[Resized], tuple[Any, Arguments]]
RULES: dict[str, Rule] = {}


def resize(*names: str) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        RULES.update({f"aten::{name}": function for name in names})
        return function

    return register


def resized(operation: Operation, axes: OperationAxes, subset: Subset) -> tuple[Any, Arguments]:
    """Return what to call instead of a recorded operation, and the arguments that hold other sizes."""
    touched = any(subset.cuts(dims) for dims in (*axes.used, *axes.outputs))
    rule = RULES.get(functional_name(operation.func)) if touched else None
    return rule(Resized(operation, axes, subset)) if rule else (operation.func, {})


def described(operation: Operation) -> str:
    """Name an operation, its shapes and its module."""
    module = f"in '{operation.path}'" if operation.path else "in the network itself"
    shapes = ", ".join(str(list(ref.shape)) for ref in operation.inputs)
    return f"{operation.func} of {shapes or 'no tensor'}, called {module},"


# ------------------------------------------------------------------ sizes of the result


@resize("view", "_unsafe_view", "reshape", "_reshape_alias")
def view(op: Resized) -> tuple[Any, Arguments]:
    return op.operation.func, {"size" if "size" in op.operation.arguments else "shape": op.shape}


@resize("expand", "zeros", "ones", "full", "empty", "new_zeros", "new_ones", "new_full", "new_empty")
def sized(op: Resized) -> tuple[Any, Arguments]:
    return op.operation.func, {"size": op.shape}


LIKE = {
    "zeros_like": aten.new_zeros.default,
    "ones_like": aten.new_ones.default,
    "full_like": aten.new_full.default,
    "empty_like": aten.new_empty.default,
}


@resize(*LIKE)
def like(op: Resized) -> tuple[Any, Arguments]:
    """Make a constant of the traced size; each operation that reads it takes as many entries as it needs."""
    name = op.operation.func._schema.name.split("::")[1]
    return LIKE[name], {"size": op.shape, "memory_format": ...}


@resize("rrelu_with_noise")
def random_relu(op: Resized) -> tuple[Any, Arguments]:
    """Apply the mean slope, as in evaluation mode, instead of noise of the traced size."""
    slope = (op["lower"] + op["upper"]) / 2
    return aten.leaky_relu.default, {"noise": ..., "lower": slope, "upper": ..., "training": ...}


@resize("constant_pad_nd")
def pad(op: Resized) -> tuple[Any, Arguments]:
    amounts, dims = list(op["pad"]), op.axes.outputs[0]
    shape = op.operation.outputs.shape
    for index in range(len(amounts) // 2):
        dim = len(dims) - 1 - index
        if op.subset.cuts([dims[dim]]):
            before, after = amounts[2 * index : 2 * index + 2]
            amounts[2 * index] = op.subset.prefix(dims, dim, before)
            kept = op.subset.prefix(dims, dim, shape[dim] - after)
            amounts[2 * index + 1] = op.subset.size(dims[dim]) - kept
    return op.operation.func, {"pad": amounts}


@resize("as_strided")
def as_strided(op: Resized) -> tuple[Any, Arguments]:
    (out,) = refs(op.operation.outputs)
    if out.shape != op["self"].shape or list(op.axes.outputs[0]) != list(op.axes.given[0]):
        raise op.refuse("reads memory in a way that is not followed")
    return aten.alias.default, {"size": ..., "stride": ..., "storage_offset": ...}


@resize("empty_strided", "new_empty_strided", "unfold", "channel_shuffle")
def refused(op: Resized) -> tuple[Any, Arguments]:
    raise op.refuse("depends on sizes in a way that is not followed")


# ------------------------------------------------------------------ parts of a dimension


@resize("slice")
def slice_(op: Resized) -> tuple[Any, Arguments]:
    ref: TensorRef = op["self"]
    dims = list(op.axes.given[0])
    dim = op["dim"] % ref.ndim
    if not op.subset.cuts([dims[dim]]):
        return op.operation.func, {}
    total = ref.shape[dim]
    if op["step"] != 1:  # one of several interleaved parts, which has the same place in each of them
        return op.operation.func, {"end": op.subset.size(dims[dim])}
    start, end = (_bound(op[name], total, default) for name, default in (("start", 0), ("end", total)))
    return op.operation.func, {
        "start": op.subset.prefix(dims, dim, start),
        "end": op.subset.prefix(dims, dim, end),
    }


def _bound(value: int | None, total: int, default: int) -> int:
    value = default if value is None else value
    return max(0, min(total, value + total if value < 0 else value))


@resize("select")
def select(op: Resized) -> tuple[Any, Arguments]:
    ref: TensorRef = op["self"]
    dims = list(op.axes.given[0])
    dim = op["dim"] % ref.ndim
    if not op.subset.cuts([dims[dim]]):
        return op.operation.func, {}
    index = op["index"] % ref.shape[dim]
    place = op.subset.prefix(dims, dim, index)
    if op.subset.prefix(dims, dim, index + 1) == place:
        raise op.refuse(f"reads unit {index}, which would be removed")
    return op.operation.func, {"index": place}


@resize("split", "split_with_sizes", "unsafe_split", "unsafe_split_with_sizes")
def split(op: Resized) -> tuple[Any, Arguments]:
    ref: TensorRef = op["self"]
    dim = op["dim"] % ref.ndim
    if not op.subset.cuts([op.axes.given[0][dim]]):
        return op.operation.func, {}
    sizes = [op.subset.size(dims[dim]) for dims in op.axes.outputs]
    if "split_sizes" in op.operation.arguments:
        return op.operation.func, {"split_sizes": sizes}
    return aten.split_with_sizes.default, {"split_size": sizes}  # by position


@resize("unbind")
def unbind(op: Resized) -> tuple[Any, Arguments]:
    dim = op["dim"] % op["self"].ndim
    if op.subset.cuts([op.axes.given[0][dim]]):
        raise op.refuse("returns a tensor for each unit, of which some would be removed")
    return op.operation.func, {}


# ------------------------------------------------------------------ layers


@resize("native_layer_norm")
def layer_norm(op: Resized) -> tuple[Any, Arguments]:
    dims = op.dims("input")
    return op.operation.func, {
        "normalized_shape": list(op.subset.shape(dims[len(dims) - len(op["normalized_shape"]) :]))
    }


@resize("native_group_norm")
def group_norm(op: Resized) -> tuple[Any, Arguments]:
    channels = op.dims("input")[1]
    if not op.subset.cuts([channels]):
        return op.operation.func, {}
    groups = op.subset.outer_size(channels, op["group"])
    if groups is None:
        raise op.refuse("has groups that do not lie along an axis")
    return op.operation.func, {"C": op.subset.size(channels), "group": groups}


@resize("convolution")
def convolution(op: Resized) -> tuple[Any, Arguments]:
    channels = op.dims("input")[1]
    if op["groups"] == 1 or not op.subset.cuts([channels]):
        return op.operation.func, {}
    groups = op.subset.outer_size(channels, op["groups"])
    if groups is None:
        raise op.refuse("has groups that do not lie along an axis")
    return op.operation.func, {"groups": groups}
