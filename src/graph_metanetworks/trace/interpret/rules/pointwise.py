"""Elementwise operations: axes that meet in one dimension are unified."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from graph_metanetworks.symmetry.axes import Dim, fixed, is_pinned, pin, unify_dims
from graph_metanetworks.trace.interpret import binding, wiring
from graph_metanetworks.trace.interpret.interpreter import Call
from graph_metanetworks.trace.interpret.labels import compact, pattern
from graph_metanetworks.trace.interpret.registry import POINTWISE, rule
from graph_metanetworks.trace.interpret.value import Role, Value, highest
from graph_metanetworks.trace.record.operation import TensorRef

# activation function of neurons after an operation
ACTIVATIONS = {
    "relu": "relu",
    "hardtanh": "relu6",
    "clamp_min": "relu",
    "threshold": "relu",
    "gelu": "gelu",
    "silu": "silu",
    "sigmoid": "sigmoid",
    "hardsigmoid": "hardsigmoid",
    "hardswish": "hardswish",
    "tanh": "tanh",
    "elu": "elu",
    "celu": "elu",
    "selu": "selu",
    "leaky_relu": "leaky_relu",
    "_prelu_kernel": "prelu",
    "softplus": "softplus",
    "mish": "mish",
    "sin": "sine",
    "cos": "cosine",
    "exp": "exponential",
    "log_sigmoid_forward": "logsigmoid",
    "rrelu_with_noise": "leaky_relu",
    "erf": "gelu",
}
# x f(x), with f by name: activation functions written out, up to constants
GATED_BY_ITSELF = {"tanh": "gelu", "sigmoid": "silu", "softplus": "mish"}
ROTARY = "a table of sines or cosines, as of rotary pairs"
MULTIPLICATIVE = {"mul", "div", "addcmul", "addcdiv", "pow", "_prelu_kernel", "polar", "complex"}


def broadcast_dims(
    operands: Sequence[tuple[TensorRef, Value]], shape: Sequence[int], reason: str
) -> list[Dim]:
    """Return the dimensions of an elementwise result, after demanding that the operands' agree."""
    columns: list[list[Dim]] = [[] for _ in shape]
    for ref, value in operands:
        first = len(shape) - ref.ndim
        for index, (length, dim) in enumerate(zip(ref.shape, value.dims, strict=True), first):
            if length == shape[index]:
                columns[index].append(dim)
    unify_dims([column for column in columns if len(column) > 1], reason)
    return [column[0] if column else [] for column in columns]


def combine(call: Call, tensors: Sequence[TensorRef], shape: Sequence[int]) -> Value:
    """Return the value of an elementwise operation on the given tensors."""
    if len(tensors) == 1:
        operands = [(tensors[0], call.value(tensors[0]))]
    else:
        operands = [(ref, call.use(ref)) for ref in tensors]
    dims = broadcast_dims(operands, shape, call.name)
    values = [value for _, value in operands]
    role = highest(values)
    weights = [value for value in values if value.is_weight]
    if role == Role.CONSTANT and call.name in ("sin", "cos"):
        dims = [fixed(n, ROTARY) if is_pinned(dim) else dim for n, dim in zip(shape, dims, strict=True)]
    if role < Role.ACTIVATION:
        views = [view.expand(shape) for value in weights for view in value.views]
        mixed = frozenset().union(*(value.mixed for value in weights))
        return Value(role, dims, views=views, mixed=mixed)
    activations = [value for value in values if value.is_activation]
    multiplies = call.name in MULTIPLICATIVE
    kind = "product" if multiplies else "residual"
    _show_inputs(call, operands, len(shape))
    labels = wiring.join_all(call.trace, kind, activations, shape, dims)
    pooled = all(value.pooled for value in activations)
    result = Value(role, dims, labels=labels, pooled=pooled)
    if not labels:
        _keep_origin(result, operands, shape)
    for value in activations:
        if not value.labels:
            result.labels = wiring.tell_about(call.trace, value, result.labels, shape, dims)
    for weight in weights:
        binding.bind(call.trace, scale_kind(call, multiplies), weight, result, shape)
    _note_activation(call, activations, result)
    return result


def _show_inputs(call: Call, operands: Sequence[tuple[TensorRef, Value]], ndim: int) -> None:
    """Give nodes to a raw input that meets labelled activations (a residual around the first layer)."""
    along = {
        dim + ndim - label.dim()
        for _, value in operands
        for label in value.labels
        for dim in pattern(label)
        if len(pattern(label)) == 1
    }
    for ref, value in operands:
        if value.labels or value.origin is None or value.behind is not None:
            continue
        for dim in along:
            own = dim - ndim + ref.ndim
            if own >= 0 and ref.shape[own] > 1:
                wiring.label_along(call.trace, value, ref.shape, own)


def scale_kind(call: Call, multiplies: bool) -> str:
    """Return what an elementwise parameter does; inside a norm layer it is that layer's scale or shift."""
    part = "scale" if multiplies else "shift"
    owner = call.trace.class_of(call.path).lower()
    for norm in ("rms", "layer", "batch", "group", "instance"):
        if f"{norm}norm" in owner:
            return f"{norm} norm {part}"
    return part


def _keep_origin(result: Value, operands: Sequence[tuple[TensorRef, Value]], shape: Sequence[int]) -> None:
    """Keep the origin of an input that is only rescaled or passed through a function."""
    activations = [(ref, value) for ref, value in operands if value.is_activation]
    if len(activations) == 1 and activations[0][0].shape == tuple(shape):
        result.origin = activations[0][1].origin
    result.behind = wiring.nodes_behind(*(value for _, value in activations))


def _note_activation(call: Call, operands: Sequence[Value], result: Value) -> None:
    same = [value for value in operands if _same_nodes(value, result)]
    before = next((value.passed for value in same if value.passed), "")
    meets_itself = call.name == "mul" and len(same) == 2 and not all(value.passed for value in same)
    gate = GATED_BY_ITSELF.get(before) if meets_itself else None
    name = gate or ACTIVATIONS.get(call.name)
    result.passed = gate or before or name or ""
    if name is None:
        return
    for label in result.labels:
        for group in call.trace.builder.groups_in(label):
            if not group.activation or (gate and group.activation == before):
                group.activation = name
            call.trace.builder.bare.discard(group.start)


def _same_nodes(first: Value, second: Value) -> bool:
    pairs = zip(first.labels, second.labels, strict=False)
    return len(first.labels) == len(second.labels) and all(
        torch.equal(compact(ours, pattern(ours)), compact(theirs, pattern(theirs))) for ours, theirs in pairs
    )


@rule(
    "copy",
    "floor_divide",
    "masked_fill",
    "lerp",
    "native_dropout",
    "where",
    "polar",
    "complex",
    "_conj",
    "angle",
)
def pointwise(call: Call) -> list[Value]:
    tensors = call.tensors
    if call.name == "copy":  # what was there before is overwritten
        return [overwrite(call)]
    return [combine(call, tensors, ref.shape) for ref in call.outs]


POINTWISE.append(pointwise)


def overwrite(call: Call) -> Value:
    source = call.use("src")
    shape = call.out.shape
    dims = broadcast_dims([(call["src"], source)], shape, "copy")
    kept = call.value("self").dims
    dims = [new or old for new, old in zip(dims, kept, strict=True)]
    value = combine(call, [call["src"]], shape)
    value.dims = dims
    return value


@rule("log_sigmoid_forward", "rrelu_with_noise")
def with_buffer(call: Call) -> list[Value]:
    """Handle activation functions that return or take a buffer for their backward pass."""
    result = combine(call, [call["self"]], call.out.shape)
    buffers = [
        result.dims if ref.shape == call.out.shape else [fixed(n, call.name) for n in ref.shape]
        for ref in call.outs[1:]
    ]
    return [result, *(Value(Role.CONSTANT, dims) for dims in buffers)]


@rule("_prelu_kernel")
def prelu(call: Call) -> Value:
    return combine(call, [call["self"], call["weight"]], call.out.shape)


@rule("view_as_complex")
def view_as_complex(call: Call) -> Value:
    value = call.value("self")
    pin(value.dims[-1], call.name)
    return value.moved(value.dims[:-1], lambda label: label[..., 0])


@rule("view_as_real")
def view_as_real(call: Call) -> Value:
    value = call.value("self")
    shape = call.out.shape
    dims = [*value.dims, fixed(2, "real and imaginary part")]
    return value.moved(dims, lambda label: label.unsqueeze(-1).expand(shape))
