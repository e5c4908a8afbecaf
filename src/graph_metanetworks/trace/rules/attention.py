"""Products of two activations: attention scores, attention values, hypernetworks.

A score node stands for each head. Each (query, key) pair of dimensions has a node of its own that takes an edge
from both and gives one to its head; the attention's result has nodes that take edges from the head and the value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from graph_metanetworks.symmetry.axes import Dim
from graph_metanetworks.trace import wiring
from graph_metanetworks.trace.labels import compact, varies
from graph_metanetworks.trace.registry import rule
from graph_metanetworks.trace.value import Role, Value

if TYPE_CHECKING:
    from graph_metanetworks.trace.interpreter import Call


def dot(
    call: Call,
    x: Value,
    w: Value,
    x_shape: tuple[int, int, int],
    w_shape: tuple[int, int, int],
    dims: list[Dim],
) -> Value:
    """x [b, n, k] times w [b, k, m] where neither is a parameter."""
    trace = call.trace
    space = (max(x_shape[0], w_shape[0]), x_shape[1], w_shape[2], x_shape[2])  # b, n, m, k
    shape = space[:3]
    left = [_spread(x_label, x_shape, space, 2) for x_label in x.labels if varies(x_label, 2)]
    right = [
        _spread(label.transpose(1, 2), (w_shape[0], w_shape[2], w_shape[1]), space, 1)
        for label in w.labels
        if varies(label, 1)
    ]
    labels = [_scores(call, left, right, space, dims, x.dims[2])] if left and right else []
    lost = bool(left) != bool(right) or x.behind is not None or w.behind is not None
    for value, keep, contracted in ((x, {0, 1}, 2), (w, {0, 2}, 1)):
        for label in value.labels:
            if not varies(label, contracted):
                passing = compact(label, keep).expand(shape)
                labels = _attend(call, labels, passing, shape, dims)
    for value in (x, w):
        if not value.labels:
            labels = wiring.tell_about(trace, value, labels, shape, dims)
    behind = wiring.nodes_behind(x, w) if lost and not labels else None
    return Value(Role.ACTIVATION, dims, labels=labels, behind=behind)


def _attend(
    call: Call, labels: list[Tensor], passing: Tensor, shape: tuple, dims: list[Dim]
) -> list[Tensor]:
    """Join a label with those of the scores; what meets a head is the value of an attention."""
    builder = call.trace.builder

    def is_head(label: Tensor) -> bool:
        return all(group.kind == "head" for group in builder.groups_in(label))

    heads = [label for label in labels if is_head(label)]
    if len(heads) != 1 or len(labels) != 1 or is_head(passing):
        if is_head(passing) and len(labels) == 1 and not heads:
            return _attend(call, [passing], labels[0], shape, dims)
        return wiring.join(call.trace, "product", labels, [passing], shape, dims)
    depth = builder.depths(heads[0], passing)[1] + 1
    context = builder.label_like("context", call.path, shape, dims, [heads[0], passing], depth)
    builder.connect("head", heads[0], context, call.path)
    builder.connect("value", passing, context, call.path)
    builder.duties.append(("value", passing))
    call.trace.note_heads(heads[0], passing)
    return [context]


def _spread(label: Tensor, own: tuple[int, int, int], space: tuple, missing: int) -> Tensor:
    """A label [b, rows, k] laid out in the space [b, n, m, k], which has one more dimension."""
    return label.expand(own).unsqueeze(missing).expand(space)


def _scores(
    call: Call, left: list[Tensor], right: list[Tensor], space: tuple, dims: list[Dim], inner: Dim
) -> Tensor:
    """Nodes for the heads, reached through a node for each pair of dimensions that is multiplied."""
    builder = call.trace.builder
    depth = builder.depths(*left, *right)[1] + 1
    pair = builder.label_like(
        "score", call.path, space, [*dims, inner], [*left, *right], depth
    )
    for label in left:
        builder.connect("query", label, pair, call.path)
    for label in right:
        builder.connect("key", label, pair, call.path)
    first_of_each = [label[..., 0] for label in (*left, *right)]
    heads = builder.label_like("head", call.path, space[:3], dims, first_of_each, depth + 1)
    builder.connect("head", pair, heads.unsqueeze(3).expand(space), call.path)
    for side, duty in ((left, "query"), (right, "key")):
        for label in side:
            builder.duties.append((duty, label))
            call.trace.note_heads(heads.unsqueeze(3).expand(space), label)
    return heads


@rule("_softmax", "_safe_softmax", "_log_softmax", "softmax", "log_softmax")
def softmax(call: Call) -> Value:
    value = call.value("self")
    if value.is_weight:
        return value.arithmetic(value.dims)
    return value
