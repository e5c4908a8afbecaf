"""Norm layers: scale, shift, running mean and variance each come from a node of their own.

A norm over part of the channels has a node for each part too, which shows the channels that it joins.
"""

from __future__ import annotations

from dataclasses import replace

from graph_metanetworks.symmetry.axes import cut, free, unify
from graph_metanetworks.trace.interpret import binding, wiring
from graph_metanetworks.trace.interpret.interpreter import Call
from graph_metanetworks.trace.interpret.registry import rule
from graph_metanetworks.trace.interpret.rules.contraction import add_bias
from graph_metanetworks.trace.interpret.value import Role, Value


def normalized(call: Call, kind: str, first: int, **parameters: str) -> Value:
    """Return the normalised input; `parameters` maps scale, shift, ... to argument names."""
    value = call.use("input")
    if value.is_weight:
        value = binding.lift(call.trace, value, call["input"].shape)
    result = replace(value, role=Role.ACTIVATION, labels=list(value.labels))
    for part, argument in parameters.items():
        result = add_bias(call, result, call.get(argument), f"{kind} norm {part}", first)
    return result


@rule("native_layer_norm")
def layer_norm(call: Call) -> list[Value]:
    first = call["input"].ndim - len(call["normalized_shape"])
    kind = "layer" if call.name == "native_layer_norm" else "rms"
    result = normalized(call, kind, first, scale="weight", shift="bias")
    wiring.show_norm_groups(call.trace, result, result.dims, range(first, len(result.dims)))
    statistics = [[] if i >= first else dim for i, dim in enumerate(result.dims)]
    return [result, *(Value(Role.ACTIVATION, statistics) for _ in call.outs[1:])]


@rule(
    "native_batch_norm",
    "_native_batch_norm_legit",
    "_native_batch_norm_legit_no_training",
)
def batch_norm(call: Call) -> list[Value]:
    kind = "instance" if "instancenorm" in call.trace.class_of(call.path).lower() else "batch"
    result = normalized(
        call,
        kind,
        1,
        scale="weight",
        shift="bias",
        mean="running_mean",
        variance="running_var",
    )
    if call.get("training"):  # statistics of this batch, as in an instance norm
        wiring.show_norm_groups(call.trace, result, result.dims, set(range(call["input"].ndim)) - {1})
    channels = call["input"].shape[1]
    rest = [[result.dims[1] if n == channels else free(n) for n in ref.shape] for ref in call.outs[1:]]
    return [result, *(Value(Role.ACTIVATION, dims) for dims in rest)]


@rule("native_group_norm")
def group_norm(call: Call) -> list[Value]:
    shape, count = call["input"].shape, call["group"]
    cut(call.value("input").dims[1], count)
    result = normalized(call, "group", 1, scale="weight", shift="bias")
    groups, channels = cut(result.dims[1], count)
    if not result.labels and 1 < count < shape[1]:
        wiring.label_along(call.trace, result, shape, 1)
    dims = [result.dims[0], groups, channels, *result.dims[2:]]
    wiring.show_norm_groups(call.trace, result, dims, range(2, len(dims)))
    statistics = [result.dims[0], groups]
    return [result, *(Value(Role.ACTIVATION, statistics) for _ in call.outs[1:])]


@rule("_weight_norm_interface")
def weight_norm(call: Call) -> list[Value]:
    """Compute w = g v / |v|, with the norm over all dimensions but `dim`."""
    direction, gain = call.value("v"), call.value("g")
    for length, a, b in zip(call["g"].shape, direction.dims, gain.dims, strict=True):
        if length > 1:
            unify(a, b, call.name)
    shape = call.out.shape
    views = direction.views + [view.expand(shape) for view in gain.views]
    weight = Value(Role.WEIGHT, direction.dims, views=views, mixed=direction.mixed | gain.mixed)
    return [weight, Value(Role.WEIGHT, gain.dims, mixed=gain.parameters)]
