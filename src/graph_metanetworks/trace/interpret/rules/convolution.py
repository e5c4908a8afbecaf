"""Convolutions: channels as in a linear layer, kernel taps as parallel edges."""

from __future__ import annotations

import torch
from torch import Tensor

from graph_metanetworks.symmetry.axes import Dim, cut, fixed, leaves, pin, unify
from graph_metanetworks.trace.interpret import binding, wiring
from graph_metanetworks.trace.interpret.interpreter import Call
from graph_metanetworks.trace.interpret.labels import compact, lay_along, number_sets, pattern, reshaped
from graph_metanetworks.trace.interpret.registry import rule
from graph_metanetworks.trace.interpret.rules.contraction import add_bias
from graph_metanetworks.trace.interpret.value import Role, Value


@rule("convolution", "_convolution")
def convolution(call: Call) -> Value:
    x, w = call.use("input"), call.use("weight")
    for dim in x.dims[2:] + w.dims[2:]:
        pin(dim, "place in a convolution")
    call.trace.mixes_along(x.dims, range(2, call["input"].ndim))
    call.trace.mixes_along(w.dims, range(2, call["weight"].ndim))
    out_channels = _channel_axes(call, x, w)
    dims = [x.dims[0], out_channels, *(fixed(n, "place") for n in call.out.shape[2:])]
    call.trace.seen([w.dims[0], w.dims[1]])
    if call["groups"] == 1:
        call.trace.seen([*dims, x.dims[1]], activation=True)
    if x.is_weight:
        x = binding.lift(call.trace, x, call["input"].shape)
    labels = _taps(call, x, w, dims) if w.is_weight else []
    behind = None if w.is_weight else wiring.nodes_behind(x, w)
    result = Value(Role.ACTIVATION, dims, labels=labels, behind=behind)
    return add_bias(call, result, call["bias"], "convolution bias", first=1)


def _channel_axes(call: Call, x: Value, w: Value) -> Dim:
    """Unify input channels with the weight's; return the axes of the output channels."""
    groups, transposed = call["groups"], call["transposed"]
    inward, outward = (0, 1) if transposed else (1, 0)
    if groups == 1:
        unify(x.dims[1], w.dims[inward], call.name)
        return w.dims[outward]
    x_group, x_inner = cut(x.dims[1], groups)
    w_group, w_inner = cut(w.dims[0], groups)
    unify(x_group, w_group, call.name)
    unify(x_inner, w_inner if transposed else w.dims[1], call.name)
    if transposed:
        return leaves(w_group) + leaves(w.dims[1])
    return w.dims[0]


def _taps(call: Call, x: Value, w: Value, dims: list[Dim]) -> list[Tensor]:
    trace, builder = call.trace, call.trace.builder
    shape, w_shape, groups = call.out.shape, call["weight"].shape, call["groups"]
    source = wiring.label_along(trace, x, call["input"].shape, 1)
    depth = builder.depths(source)[1] + 1
    outside = pattern(source) - {1}  # several node sets that share this kernel, folded into the batch
    sets = number_sets(compact(source, {0, 1}), 1)
    if outside:
        shared = builder.label("shared", call.path, call["input"].shape, x.dims, [1], depth)
        builder.connect("share", source, shared, call.path)
        source, depth = shared, depth + 1
    target = builder.label("channel", call.path, shape, dims, [1], depth)
    builder.bare.add(builder.groups[-1].start)
    channels = compact(source, {1}).reshape(groups, -1)  # [groups, channels of a group]
    outputs = compact(target, {1}).reshape(groups, -1)
    per_group = (groups, channels.size(1), outputs.size(1))
    if call["transposed"]:
        sources = channels.reshape(-1, 1)
        targets = outputs.unsqueeze(1).expand(per_group).reshape(-1, outputs.size(1))
    else:
        targets = outputs.reshape(-1, 1)
        across = (groups, outputs.size(1), channels.size(1))
        sources = channels.unsqueeze(1).expand(across).reshape(-1, channels.size(1))
    taps = [1] * (len(w_shape) - 2)
    for view in w.views:
        ends = (end.reshape(*end.shape, *taps) for end in (sources, targets))
        binding.attach_weight(trace, "convolution weight", view, w.dims, *ends)
    binding.attach_later(trace, w, [(x.dims[1], compact(source, {1})), (dims[1], compact(target, {1}))])
    if not outside:
        return [target]
    return [_per_node_set(call, target, sets, outside, dims, depth + 1)]


def _per_node_set(
    call: Call, target: Tensor, sets: Tensor, outside: set[int], dims: list[Dim], depth: int
) -> Tensor:
    """Make channels for each of several node sets that share a kernel; a batch holds them several times."""
    builder, shape = call.trace.builder, call.out.shape
    places = [lay_along(torch.arange(shape[d]), d, len(shape)) for d in outside - {0}]
    told = [label.expand(shape) for label in (target, sets, *places)]
    outer = builder.label_like("channel", call.path, shape, dims, told, depth)
    builder.connect("share", target, outer, call.path)
    return outer


@rule("im2col")
def unfold(call: Call) -> Value:
    """Extract patches: each channel is followed by the positions of the patch."""
    ref, value = call["self"], call.value("self")
    for dim in value.dims[2:]:
        pin(dim, "place in a patch")
    call.trace.mixes_along(value.dims, range(2, ref.ndim))
    batch, channels = ref.shape[:2]
    places = call.out.shape[1] // channels
    dims = [
        value.dims[0],
        leaves(value.dims[1]) + fixed(places, "place in a patch"),
        fixed(call.out.shape[2], "patch"),
    ]

    def spread(label: Tensor) -> Tensor:
        one = label[:, :, :1, :1].reshape(label.shape[0], channels, 1, 1)
        wide = one.expand(batch, channels, places, call.out.shape[2])
        return reshaped(wide, call.out.shape)

    followed = [label for label in value.labels if not pattern(label) - {0, 1}]
    lost = len(followed) < len(value.labels)
    behind = wiring.nodes_behind(value) if lost or not followed else None
    return Value(value.role, dims, labels=[spread(x) for x in followed], behind=behind)
