"""Reductions: the reduced axes vanish; their order does not matter, so nothing is demanded of them."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from graph_metanetworks.symmetry.axes import pin
from graph_metanetworks.trace.interpret import wiring
from graph_metanetworks.trace.interpret.interpreter import Call
from graph_metanetworks.trace.interpret.labels import canonical, compact, pattern
from graph_metanetworks.trace.interpret.registry import REDUCTION, rule
from graph_metanetworks.trace.interpret.rules.pointwise import combine
from graph_metanetworks.trace.interpret.value import Role, Value
from graph_metanetworks.trace.record.operation import TensorRef

RETURNS_POSITION = {"argmax", "argmin", "max", "min", "median", "kthvalue", "mode"}


def reduced(call: Call, value: Value, shape: Sequence[int], dims: set[int], keep: bool) -> Value:
    """Return the value of a tensor of `shape` after reducing the given dimensions."""
    kept = [i for i in range(len(shape)) if keep or i not in dims]
    axes = [[] if i in dims else value.dims[i] for i in kept]
    final = [1 if i in dims else shape[i] for i in kept]
    if value.is_weight:
        return _reduced_weight(value, shape, dims, axes, final)
    labels, lost = [], []
    for label in value.labels:
        if not pattern(label) & dims:
            small = compact(label, set(range(len(shape))) - dims)
        elif pattern(label) - dims:
            small = _pooled_nodes(call, value, shape, label, dims)
        else:
            lost.append(label)
            continue
        labels.append(canonical(small.reshape(final)))
    behind = wiring.nodes_behind(value) if lost and not labels else value.behind
    if lost and labels:
        gone = Value(value.role, value.dims, labels=lost)
        told = Value(value.role, axes, behind=wiring.nodes_behind(gone))
        labels = wiring.tell_about(call.trace, told, labels, final, axes)
    return Value(
        value.role,
        axes,
        labels=labels,
        origin=value.origin and value.origin.moved(lambda x: at_first(x, dims).reshape(final)),
        behind=behind,
        pooled=value.pooled or any(shape[d] > 1 for d in dims),
    )


def at_first(label: Tensor, dims: set[int]) -> Tensor:
    """Return a label at the first index along the given dimensions."""
    return label[tuple(slice(0, 1) if d in dims else slice(None) for d in range(label.dim()))]


def _reduced_weight(value: Value, shape, dims: set[int], axes: list, final: list[int]) -> Value:
    if any(shape[d] > 1 for d in dims):
        return Value(value.role, axes, mixed=value.parameters)
    return value.moved(axes, lambda label: label.reshape(final))


def _pooled_nodes(call: Call, value: Value, shape, label: Tensor, dims: set[int]) -> Tensor:
    """Make nodes for channels reduced over part of what distinguishes them, such as the mean over heads."""
    builder = call.trace.builder
    outer = set(range(len(shape))) - dims
    small = [1 if i in dims else n for i, n in enumerate(shape)]
    axes = [[] if i in dims else dim for i, dim in enumerate(value.dims)]
    depth = builder.depths(label)[1] + 1
    pooled = builder.label_like("pool", call.path, small, axes, [compact(label, outer)], depth)
    builder.connect("pool", label, pooled.expand(tuple(shape)), call.path)
    return pooled


@rule(
    "max",
    "min",
    "mean",
    "sum",
    "prod",
    "var",
    "std",
    "var_mean",
    "std_mean",
    "amax",
    "amin",
    "aminmax",
    "logsumexp",
    "argmax",
    "argmin",
    "median",
    "kthvalue",
    "mode",
    "all",
    "any",
    "linalg_vector_norm",
    "norm",
)
def reduction(call: Call) -> list[Value]:
    if "other" in call.arguments:  # torch.max(a, b) is elementwise
        return [combine(call, call.tensors, call.out.shape)]
    ref: TensorRef = call.get("self", "input", "x")
    value = call.value(ref)
    given = call.get("dim", "dims")
    listed = [given] if isinstance(given, int) else given
    dims = {d % max(1, ref.ndim) for d in listed} if listed else set(range(ref.ndim))
    if call.name in ("argmax", "argmin") or (len(call.outs) > 1 and call.name in RETURNS_POSITION):
        for dim in dims:
            pin(value.dims[dim], f"position of the {call.name}")
    result = reduced(call, value, ref.shape, dims, bool(call.get("keepdim")))
    others = [
        Value(max(result.role, Role.CONSTANT), result.dims, behind=result.behind) for _ in call.outs[1:]
    ]
    return [result, *others]


REDUCTION.append(reduction)
