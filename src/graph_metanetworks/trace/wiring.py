"""How operations connect nodes: the few constructions from which all rules build the graph."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from graph_metanetworks.symmetry.axes import Dim, fixed, pin
from graph_metanetworks.trace.builder import Loose
from graph_metanetworks.trace.labels import (
    NOTHING,
    View,
    canonical,
    compact,
    lay_along,
    pairs,
    pattern,
    varies,
)
from graph_metanetworks.trace.value import Role, Value, highest

if TYPE_CHECKING:
    from graph_metanetworks.trace.interpreter import Call, Interpreter


# ------------------------------------------------------------------ labels of one tensor


def label_along(trace: Interpreter, value: Value, shape: Sequence[int], dim: int) -> Tensor:
    """The label that tells the channels along `dim` apart; nodes are made if there are none yet."""
    if shape[dim] > 1:
        found = [label for label in value.labels if varies(label, dim)]
    else:
        found = [label for label in value.labels if not pattern(label)][:1]
    if len(found) == 1:
        label = complete(trace, found[0], value, dim)
    elif found:
        label = _product(trace, value, shape, found)
    else:
        label = _new_label(trace, value, shape, dim)
    value.labels = [label] + [x for x in value.labels if all(x is not f for f in found)]
    value.behind = None
    return label


def complete(trace: Interpreter, label: Tensor, value: Value, dim: int) -> Tensor:
    """Give the places that no node stands for (padding, unwritten memory) constant nodes."""
    small = compact(label, pattern(label))
    if not bool((small == NOTHING).any()):
        return label
    along = pattern(label) & {dim} or pattern(label)
    numbers = trace.builder.label(
        "constant", trace.path, small.shape, [fixed(n) for n in small.shape], along, 0
    )
    return canonical(torch.where(small == NOTHING, numbers, small)).expand(label.shape)


def _product(
    trace: Interpreter, value: Value, shape: Sequence[int], labels: list[Tensor]
) -> Tensor:
    """Nodes for each combination of several labels, joined to all of them."""
    builder = trace.builder
    depth = builder.depths(*labels)[1] + 1
    new = builder.label_like("product", trace.path, shape, value.dims, labels, depth)
    for label in labels:
        builder.connect("product", label, new, trace.path)
    return new


def _new_label(trace: Interpreter, value: Value, shape: Sequence[int], dim: int) -> Tensor:
    builder = trace.builder
    if value.origin is not None and value.behind is None:
        shown = compact(value.origin.dense(), {dim}).reshape(-1)
        numbers = trace.input_nodes(value.origin.parameter, shown, value.dims[dim])
        return lay_along(numbers, dim, len(shape)).expand(tuple(shape))
    if value.behind is None:
        kind = "input" if value.is_activation else "constant"
        label = builder.label(kind, trace.path, shape, value.dims, [dim], 0)
        builder.groups[-1].indexed = True
        return label
    depth = builder.depths(value.behind)[1]
    hub = builder.node("mix", trace.path, depth + 1)
    builder.connect("mix", value.behind, hub.expand(value.behind.shape), trace.path)
    label = builder.label("feature", trace.path, shape, value.dims, [dim], depth + 2)
    builder.groups[-1].indexed = True
    builder.connect("mix", hub.expand(label.shape), label, trace.path)
    return label


def nodes_behind(*values: Value) -> Tensor | None:
    """All nodes that the values were computed from."""
    found = [compact(label, pattern(label)).reshape(-1) for v in values for label in v.labels]
    found += [v.behind for v in values if v.behind is not None]
    if not found:
        return None
    nodes = torch.cat(found).unique()
    return nodes[nodes >= 0]


# ------------------------------------------------------------------ several activations


def join_all(
    trace: Interpreter, kind: str, values: Sequence[Value], shape: Sequence[int], dims: list[Dim]
) -> list[Tensor]:
    """Labels of an elementwise combination of activations, with structural edges between their nodes."""
    labels: list[Tensor] = []
    if prod(shape) == 0:
        return labels
    for value in values:
        own = [label.expand(tuple(shape)) for label in value.labels]
        labels = join(trace, kind, labels, own, shape, dims)
    return labels


def join(
    trace: Interpreter,
    kind: str,
    first: list[Tensor],
    second: list[Tensor],
    shape: Sequence[int],
    dims: list[Dim],
) -> list[Tensor]:
    labels = list(first)
    for other in second:
        for index, label in enumerate(labels):
            ours, theirs = pattern(label), pattern(other)
            if ours & theirs or not ours or not theirs:
                labels[index] = join_labels(trace, kind, label, other, shape, dims)
                break
        else:
            labels.append(other)
    return labels


def join_labels(
    trace: Interpreter,
    kind: str,
    first: Tensor,
    second: Tensor,
    shape: Sequence[int],
    dims: list[Dim],
) -> Tensor:
    """Connect the nodes of two labels that meet in one place.

    If one side is deeper everywhere, and fine enough, it takes edges from the other, as a residual branch does.
    Otherwise new nodes take edges from both, so that the result does not depend on the order of operands.
    """
    both = pairs(first, second)
    if bool((both[0] == both[1]).all()):
        return first
    if bool((both == NOTHING).any()):
        return _join_partial(trace, kind, first, second, shape, dims)
    builder = trace.builder
    (low_a, high_a), (low_b, high_b) = builder.depths(first), builder.depths(second)
    count = both.size(1)
    if high_a < low_b and count == both[1].unique().numel():
        builder.connect(kind, first, second, trace.path)
        return second
    if high_b < low_a and count == both[0].unique().numel():
        builder.connect(kind, second, first, trace.path)
        return first
    name = {"residual": "sum", "head": "context"}.get(kind, kind)
    depth = max(high_a, high_b) + 1
    new = builder.label_like(name, trace.path, shape, dims, [first, second], depth)
    builder.connect(kind, first, new, trace.path)
    builder.connect(kind, second, new, trace.path)
    return new


def _join_partial(
    trace: Interpreter,
    kind: str,
    first: Tensor,
    second: Tensor,
    shape: Sequence[int],
    dims: list[Dim],
) -> Tensor:
    """Where only one side has nodes they stand for the result; elsewhere both are joined."""
    only = torch.where(first == NOTHING, second, first)
    overlap = (first != NOTHING) & (second != NOTHING)
    if not bool(overlap.any()):
        return canonical(only)
    filled_first = torch.where(overlap, first, only)
    filled_second = torch.where(overlap, second, only)
    return join_labels(
        trace, kind, canonical(filled_first), canonical(filled_second), shape, dims
    )


# ------------------------------------------------------------------ parameters


def bind(
    trace: Interpreter,
    kind: str,
    weight: Value,
    shape: Sequence[int],
    dims: list[Dim],
    labels: list[Tensor],
) -> None:
    """Parameters that act elementwise on a tensor of `shape`: edges from a node of their own to its nodes.

    `labels` are those of the tensor; one is added if none fits.
    """
    shape = tuple(max(1, n) for n in shape)
    for view in weight.views:
        _bind_view(trace, kind, view.expand(shape), shape, dims, labels)
    for name in sorted(weight.mixed):
        nearby = [
            (dims[d], compact(label, {d}).reshape(-1))
            for label in labels
            for d in pattern(label)
            if pattern(label) == {d}
        ]
        trace.builder.loose.append(Loose(name, trace.path, nearby))


def _bind_view(
    trace: Interpreter,
    kind: str,
    view: View,
    shape: tuple[int, ...],
    dims: list[Dim],
    labels: list[Tensor],
) -> None:
    builder = trace.builder
    varying = pattern(view.label)

    def fit(label: Tensor) -> tuple[int, int]:
        return len(pattern(label) & varying), -len(pattern(label) - varying)

    target = max(labels, key=fit, default=None)
    if target is None or (varying and not pattern(target) & varying):
        along = [max(varying)] if varying else []
        target = builder.label("neuron", trace.path, shape, dims, along, 1)
        labels.append(target)
    if pattern(target) - varying:  # one parameter for several nodes: they share a hub
        depth = max(0, builder.depths(target)[0] - 1)
        hub = builder.label_like(
            "shared", trace.path, shape, dims, [compact(target, varying)], depth
        )
        builder.connect("share", hub, target, trace.path)
        target = hub
    sites = varying - pattern(target)
    source = source_nodes(trace, kind, shape, dims, sites, builder.depths(target)[1])
    builder.attach(kind, view, dims, source, target, trace.path, sites)


def attach_weight(
    trace: Interpreter, kind: str, view: View, dims: list[Dim], source: Tensor, target: Tensor
) -> None:
    """Edges from `source` to `target`; a parameter that is only a factor of one end acts on that end alone.

    Weight norm has one gain per output: its elements do not vary along the inputs.
    """
    builder = trace.builder
    shape = torch.broadcast_shapes(view.label.shape, source.shape, target.shape)
    source, target = source.expand(shape), target.expand(shape)
    varying = pattern(view.label.expand(shape))
    fits_source, fits_target = pattern(source) <= varying, pattern(target) <= varying
    if not fits_source and not fits_target:
        nearby = [
            (dims[d], compact(end, {d}).reshape(-1))
            for end in (source, target)
            for d in pattern(end)
            if pattern(end) == {d}
        ]
        builder.loose.append(Loose(view.parameter, trace.path, nearby))
        return
    if not (fits_source and fits_target):
        target = target if fits_target else source
        kind = "scale"
        source = source_nodes(trace, kind, shape, dims, set(), builder.depths(target)[1])
    builder.attach(kind, view, dims, source, target, trace.path)


def source_nodes(
    trace: Interpreter,
    kind: str,
    shape: Sequence[int],
    dims: Sequence[Dim],
    sites: set[int],
    target_depth: int,
) -> Tensor:
    """Nodes that an elementwise parameter comes from: one, or one per place if it varies over places."""
    depth = max(0, target_depth - 1)
    label = trace.builder.label(kind, trace.path, shape, dims, sites, depth)
    trace.builder.groups[-1].indexed = bool(sites)
    return label


def lift(trace: Interpreter, value: Value, shape: Sequence[int]) -> Value:
    """A parameter that serves as data (a class token, latents): nodes for its channels, edges into them."""
    if not value.is_weight:
        return value
    labels: list[Tensor] = []
    bind(trace, "token", value, shape, value.dims, labels)
    return Value(Role.ACTIVATION, value.dims, labels=labels)


def opaque(call: Call) -> list[Value]:
    """Whatever goes in and comes out is not permuted: sound for any operation."""
    values = [call.value(ref) for ref in call.tensors]
    reason = f"{call.operation.func} in '{call.path}'"
    for value in values:
        for dim in value.dims:
            pin(dim, reason)
    role = Role.ACTIVATION if highest(values) > Role.CONSTANT else Role.CONSTANT
    activations = []
    for ref, value in zip(call.tensors, values, strict=True):
        activations.append(lift(call.trace, value, ref.shape) if value.is_weight else value)
    behind = nodes_behind(*activations)
    return [
        Value(role, [fixed(n, reason) for n in ref.shape], behind=behind) for ref in call.outs
    ]
