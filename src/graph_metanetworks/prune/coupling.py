"""Which factors a norm, a softmax or a mean couples: removing units changes what the others compute."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import torch

from graph_metanetworks.graph.parameter_graph import ParameterGraph
from graph_metanetworks.prune.program import recording_of
from graph_metanetworks.symmetry.axes import Axis, Dim, leaves, variables
from graph_metanetworks.trace.interpret.interpreter import OperationAxes
from graph_metanetworks.trace.interpret.registry import functional_name
from graph_metanetworks.trace.record.operation import Operation

# operations that sum over an axis, to which a unit of value or weight zero adds nothing
ADDITIVE = frozenset(
    f"aten::{name}"
    for name in (
        *("mm", "bmm", "addmm", "baddbmm", "addbmm", "mv", "addmv", "dot", "convolution", "_trilinear"),
        *("sum", "_grouped_mm", "linear", "matmul", "einsum"),
    )
)
# operations that return some of the entries of a tensor, and add none
CHOOSING = frozenset(
    f"aten::{name}"
    for name in (
        *("slice", "select", "index", "index_select", "gather", "embedding", "copy"),
        *("split", "split_with_sizes", "unsafe_split", "unsafe_split_with_sizes", "unbind"),
    )
)
SOFTMAX = frozenset(f"aten::{name}" for name in ("_softmax", "_log_softmax", "_safe_softmax", "cumsum"))


def coupled_axes(graph: ParameterGraph) -> set[Axis]:
    """Return the axes along which some operation mixes units other than by a weighted sum."""
    recording = recording_of(graph)
    free = set(graph.symmetry.variables)
    found: set[Axis] = set()
    for operation, axes in zip(recording.operations, recording.axes, strict=True):
        if not operation.body and isinstance(operation.func, torch._ops.OpOverload):
            found |= _coupled(operation, axes) & free
    return found


def _coupled(operation: Operation, axes: OperationAxes) -> set[Axis]:
    name, given = functional_name(operation.func), operation.arguments
    if name == "aten::native_layer_norm":
        return _along(list(axes.used[0])[-len(given["normalized_shape"]) :])
    if name == "aten::native_group_norm":
        return set(_inner(axes.used[0][1], given["group"]))
    if name in SOFTMAX:
        return _along([axes.used[0][given["dim"]]])
    if name in ADDITIVE | CHOOSING or not axes.outputs:
        return set()
    # what an elementwise operation reads is still there in its result
    return _along([dim for dims in axes.used for dim in dims]) - _along(
        [dim for dims in axes.outputs for dim in dims]
    )


def _along(dims: Sequence[Dim]) -> set[Axis]:
    return {axis for dim in dims for axis in variables(dim)}


def _inner(dim: Dim, groups: int) -> set[Axis]:
    """Return the axes within each of some groups of channels."""
    axes = leaves(dim)
    for count in range(len(axes) + 1):
        if prod(axis.size for axis in axes[:count]) == groups:
            return _along([axes[count:]])
    return _along([axes])
