"""Products of two activations: attention scores, attention values, hypernetworks.

A score node stands for each head. Each (query, key) pair of dimensions has a node of its own that takes
an edge from both and gives one to its head; the attention's result has nodes that take edges from the
head and the value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from graph_metanetworks.symmetry.axes import Dim
from graph_metanetworks.trace.interpret import wiring
from graph_metanetworks.trace.interpret.builder import AttentionProduct
from graph_metanetworks.trace.interpret.labels import compact, pairs, varies
from graph_metanetworks.trace.interpret.registry import rule
from graph_metanetworks.trace.interpret.value import Role, Value

if TYPE_CHECKING:
    from graph_metanetworks.trace.interpret.interpreter import Call


def dot(
    call: Call,
    x: Value,
    w: Value,
    x_shape: tuple[int, int, int],
    w_shape: tuple[int, int, int],
    dims: list[Dim],
    *,
    of_positions: bool = False,
) -> Value:
    """Multiply x [b, n, k] by w [b, k, m], neither of which is a parameter.

    `of_positions` says that one of them was looked up by position, so that the product adds to scores.
    """
    trace = call.trace
    space = (max(x_shape[0], w_shape[0]), x_shape[1], w_shape[2], x_shape[2])  # b, n, m, k
    shape = space[:3]
    x_varies = any(varies(label, 2) for label in x.labels)
    w_varies = any(varies(label, 1) for label in w.labels)
    if x_varies and not w_varies and w.is_activation:
        wiring.label_along(trace, w, w_shape, 1)
    if w_varies and not x_varies and x.is_activation:
        wiring.label_along(trace, x, x_shape, 2)
    left = [_spread(label, x_shape, space, 2) for label in x.labels if varies(label, 2)]
    right = [
        _spread(label.transpose(1, 2), (w_shape[0], w_shape[2], w_shape[1]), space, 1)
        for label in w.labels
        if varies(label, 1)
    ]
    labels = []
    if left and right:
        labels = [_scores(call, left[0], right[0], space, dims, x.dims[2])]
        trace.builder.attentions[-1].of_positions = of_positions
    for value, keep, contracted in ((x, {0, 1}, 2), (w, {0, 2}, 1)):
        for label in value.labels:
            if not varies(label, contracted):
                passing = compact(label, keep).expand(shape)
                labels = _attend(call, labels, passing, shape, dims)
    for value in (x, w):
        if not value.labels:
            labels = wiring.tell_about(trace, value, labels, shape, dims)
    behind = wiring.nodes_behind(x, w) if not labels else None
    return Value(Role.ACTIVATION, dims, labels=labels, behind=behind)


def _attend(call: Call, labels: list[Tensor], passing: Tensor, shape: tuple, dims: list[Dim]) -> list[Tensor]:
    """Join a label with those of the scores; what meets a head is the value of an attention."""
    builder = call.trace.builder
    if len(labels) == 1:
        for heads, values in ((labels[0], passing), (passing, labels[0])):
            if builder.attentions_in(heads) and not builder.attentions_in(values):
                return [_context(call, heads, values, shape, dims)]
    return wiring.join(call.trace, "product", labels, [passing], shape, dims)


def _context(call: Call, heads: Tensor, values: Tensor, shape: tuple, dims: list[Dim]) -> Tensor:
    """Make nodes for the result of an attention, with edges from the head and from the value."""
    builder = call.trace.builder
    depth = builder.depths(heads, values)[1] + 1
    context = builder.label_like("context", call.path, shape, dims, [heads, values], depth)
    builder.connect("head", heads, context, call.path)
    builder.connect("value", values, context, call.path)
    for attention in builder.attentions_in(heads):
        attention.confirmed = True
        attention.values.append(values)
        attention.head_of += [_head_of(attention, heads, label) for label in (values, context)]
    return context


def _head_of(attention: AttentionProduct, heads: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
    both = pairs(heads, label)
    return both[1], both[0] - attention.heads.start


def _spread(label: Tensor, own: tuple[int, int, int], space: tuple, missing: int) -> Tensor:
    """Lay a label [b, rows, k] out in the space [b, n, m, k], which has one more dimension."""
    return label.expand(own).unsqueeze(missing).expand(space)


def _scores(call: Call, queries: Tensor, keys: Tensor, space: tuple, dims: list[Dim], inner: Dim) -> Tensor:
    """Make nodes for the heads, reached through a node for each pair of dimensions that is multiplied."""
    builder = call.trace.builder
    depth = builder.depths(queries, keys)[1] + 1
    both = [queries, keys]
    pair = builder.label_like("score", call.path, space, [*dims, inner], both, depth)
    scores = builder.groups[-1]
    builder.connect("query", queries, pair, call.path)
    builder.connect("key", keys, pair, call.path)
    first = [label[..., 0] for label in both]
    heads = builder.label_like("head", call.path, space[:3], dims, first, depth + 1)
    attention = AttentionProduct(builder.groups[-1], scores, queries, keys)
    spread = heads.unsqueeze(3).expand(space)
    builder.connect("head", pair, spread, call.path)
    attention.head_of += [_head_of(attention, spread, label) for label in both]
    builder.attentions.append(attention)
    return heads


@rule("_softmax", "_safe_softmax", "_log_softmax")
def softmax(call: Call) -> Value:
    value = call.value("self")
    over = {call["dim"] % len(value.dims)} if value.dims else set()
    call.trace.mixes_along(value.dims, over)
    if value.is_weight:
        return value.arithmetic(value.dims)
    wiring.show_norm_groups(call.trace, value, value.dims, over)
    for label in value.labels:
        for attention in call.trace.builder.attentions_in(label):
            attention.confirmed = True
    return value
