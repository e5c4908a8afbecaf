"""How operations connect nodes: the few constructions from which all rules build the graph."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from graph_metanetworks.symmetry.axes import Dim, is_pinned, leaves, part_of
from graph_metanetworks.trace.interpret.labels import (
    NOTHING,
    canonical,
    compact,
    laid_together,
    lay_along,
    pairs,
    pattern,
    reshaped,
    varies,
)
from graph_metanetworks.trace.interpret.value import Role, Value

if TYPE_CHECKING:
    from graph_metanetworks.trace.interpret.interpreter import Interpreter


# ------------------------------------------------------------------ labels of one tensor


def label_along(trace: Interpreter, value: Value, shape: Sequence[int], dim: int) -> Tensor:
    """Return the label that distinguishes the channels along `dim`; make nodes if there are none yet."""
    if shape[dim] > 1:
        found = [label for label in value.labels if varies(label, dim)]
    else:
        found = [label for label in value.labels if not pattern(label)][:1]
    if len(found) == 1:
        label = complete(trace, found[0], value)
    elif found:
        label = _product(trace, value, shape, found)
    else:
        label = _new_label(trace, value, shape, dim)
    value.labels = [label] + [x for x in value.labels if all(x is not f for f in found)]
    value.behind = None
    return label


def only_label(trace: Interpreter, value: Value, shape: Sequence[int], along: int) -> Tensor:
    """Return one label for all that is distinguished.

    Make nodes along one dimension if there are none yet.
    """
    if len(value.labels) > 1:
        return _product(trace, value, shape, value.labels)
    if value.labels:
        return value.labels[0]
    if shape:
        return label_along(trace, value, shape, along)
    hub = hub_label(trace, value, shape)
    return torch.tensor(NOTHING, device="cpu") if hub is None else hub


def complete(trace: Interpreter, label: Tensor, value: Value) -> Tensor:
    """Make constant nodes where no node stands (padding, unwritten memory)."""
    small = compact(label, pattern(label)).clone()
    if not bool((small == NOTHING).any()):
        return label
    builder = trace.builder
    if len(pattern(label)) == 1:
        (dim,) = pattern(label)
        line = small.view(-1)
        for start, stop in _runs(line == NOTHING):
            axes = part_of(value.dims[dim], start, stop - start)
            line[start:stop] = builder.nodes("constant", trace.path, axes, stop - start, 0)
        return small.expand(label.shape)
    dims = [axes if n > 1 else [] for axes, n in zip(value.dims, small.shape, strict=True)]
    numbers = builder.label("constant", trace.path, small.shape, dims, pattern(label), 0)
    return canonical(torch.where(small == NOTHING, numbers, small)).expand(label.shape)


def _runs(mask: Tensor) -> list[tuple[int, int]]:
    """Return the ranges in which a boolean vector is true."""
    edges = torch.nn.functional.pad(mask.int(), (1, 1)).diff()
    starts, stops = (edges == 1).nonzero().reshape(-1), (edges == -1).nonzero().reshape(-1)
    return list(zip(starts.tolist(), stops.tolist(), strict=True))


def _product(trace: Interpreter, value: Value, shape: Sequence[int], labels: list[Tensor]) -> Tensor:
    """Make nodes for each combination of several labels, joined to all of them."""
    builder = trace.builder
    depth = builder.depths(*labels)[1] + 1
    new = builder.label_like("product", trace.path, shape, value.dims, labels, depth)
    for label in labels:
        builder.connect("product", label, new, trace.path)
    return new


def _new_label(trace: Interpreter, value: Value, shape: Sequence[int], dim: int) -> Tensor:
    builder = trace.builder
    origin = value.origin if value.behind is None else None
    if origin is not None and (shown := origin.along(dim)) is not None:
        numbers = trace.input_nodes(origin.parameter, shown, value.dims[dim])
        return lay_along(numbers, dim, len(shape)).expand(tuple(shape))
    if value.behind is None:
        kind = "input" if value.is_activation else "constant"
        label = builder.label(kind, trace.path, shape, value.dims, [dim], 0)
        builder.groups[-1].indexed = True
        return label
    hub = hub_label(trace, replace(value, labels=[]), shape)
    depth = builder.depths(value.behind)[1] + 2
    label = builder.label("feature", trace.path, shape, value.dims, [dim], depth)
    builder.groups[-1].indexed = True
    if hub is not None:
        builder.connect("mix", hub, label, trace.path)
    return label


def nodes_behind(*values: Value) -> Tensor | None:
    """Return all nodes that the values were computed from."""
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
    """Return labels of an elementwise combination of activations; connect their nodes by structural edges."""
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

    If one side is deeper everywhere, and fine enough, it takes edges from the other, as a residual
    branch does. Otherwise new nodes take edges from both, so that the result does not depend on the
    order of operands.
    """
    both = pairs(first, second)
    if bool((both[0] == both[1]).all()):
        return first
    for heads, other in ((first, second), (second, first)):
        if kind == "residual" and _take_bias(trace, heads, other, dims):
            return heads
    if bool(((both == NOTHING).sum(0) == 1).any()):
        return _join_partial(trace, kind, first, second, shape, dims)
    both = both[:, both[0] != NOTHING]
    builder = trace.builder
    (low_a, high_a), (low_b, high_b) = builder.depths(first), builder.depths(second)
    count = both.size(1)
    if high_a < low_b and count == both[1].unique().numel():
        builder.connect(kind, first, second, trace.path)
        return second
    if high_b < low_a and count == both[0].unique().numel():
        builder.connect(kind, second, first, trace.path)
        return first
    name = "sum" if kind == "residual" else kind
    depth = max(high_a, high_b) + 1
    new = builder.label_like(name, trace.path, shape, dims, [first, second], depth)
    if bool((compact(first, pattern(first)) == NOTHING).any()):
        places, numbers = laid_together([first, new])
        new = canonical(torch.where(places == NOTHING, NOTHING, numbers).expand(tuple(shape)))
    builder.connect(kind, first, new, trace.path)
    builder.connect(kind, second, new, trace.path)
    return new


def _take_bias(trace: Interpreter, heads: Tensor, other: Tensor, dims: list[Dim]) -> bool:
    """Connect what is added to attention scores to their heads, as a table of position biases would be.

    Positions are not visible at the heads. Return False if these are not scores that nothing has used yet.
    """
    builder, groups = trace.builder, trace.builder.groups_in(heads)
    scores, others = (
        {id(a.heads) for a in builder.attentions_in(label) if not a.of_positions} for label in (heads, other)
    )
    positions = pattern(other) - pattern(heads)
    if (
        others
        or scores != {id(group) for group in groups}
        or bool((compact(heads, pattern(heads)) == NOTHING).any())
        or not all(is_pinned(dims[d]) for d in positions)
        or any(builder.is_used(group) for group in groups)
    ):
        return False
    for group in groups:
        group.depth = max(group.depth, builder.depths(other)[1] + 1)
    builder.connect("residual", other, heads, trace.path)
    return True


def _join_partial(
    trace: Interpreter,
    kind: str,
    first: Tensor,
    second: Tensor,
    shape: Sequence[int],
    dims: list[Dim],
) -> Tensor:
    """Join two labels where both have nodes; elsewhere keep the nodes of the one that has some."""
    first, second = laid_together([first, second])
    only = torch.where(first == NOTHING, second, first)
    overlap = (first != NOTHING) & (second != NOTHING)
    if not bool(overlap.any()):
        return canonical(only.expand(tuple(shape)))
    first, second = (torch.where(overlap, label, only).expand(tuple(shape)) for label in (first, second))
    return join_labels(trace, kind, canonical(first), canonical(second), shape, dims)


def own_nodes(
    trace: Interpreter, label: Tensor, others: Sequence[Tensor], shape: Sequence[int], dims: list[Dim]
) -> Tensor:
    """Return the label, or copies of its nodes if others contain them (a channel and its negative)."""
    nodes = compact(label, pattern(label)).reshape(-1)
    if not any(bool(torch.isin(nodes, compact(x, pattern(x)).reshape(-1)).any()) for x in others):
        return label
    builder = trace.builder
    depth = builder.depths(label)[1] + 1
    copies = builder.label_like("copy", trace.path, shape, dims, [label], depth)
    builder.connect("copy", label, copies, trace.path)
    return copies


# ------------------------------------------------------------------ what is normalised together


def show_norm_groups(trace: Interpreter, value: Value, dims: Sequence[Dim], within: Iterable[int]) -> None:
    """Make a node for each set of nodes that a norm joins, with an edge to each of them.

    The norm runs over the dimensions `within`, of the tensor viewed with dimensions `dims`. Where it joins
    all nodes, or none, such nodes would distinguish nothing, and there are none.
    """
    builder, within = trace.builder, set(within)
    axes = [(axis, dim in within) for dim, own in enumerate(dims) for axis in leaves(own)]
    lengths = [axis.size for axis, _ in axes]
    if 0 in lengths:
        return
    for number, label in enumerate(value.labels):
        along = pattern(canonical(reshaped(label, lengths)))
        between = {index for index in along if not axes[index][1]}
        if not between or between == along:
            continue
        value.labels[number] = label = complete(trace, label, value)
        depth = max(0, builder.depths(label)[0] - 1)
        groups = builder.label(
            "norm group", trace.path, lengths, [[axis] for axis, _ in axes], between, depth
        )
        builder.connect("norm group", groups, reshaped(label, lengths), trace.path)


# ------------------------------------------------------------------ operations that no label follows


def hub_label(trace: Interpreter, value: Value, shape: Sequence[int]) -> Tensor | None:
    """Make one node for all that lies behind a tensor without labels.

    Return its label, or None if nothing does.
    """
    if value.labels or value.behind is None or not value.behind.numel():
        return None
    builder = trace.builder
    hub = builder.node("mix", trace.path, builder.depths(value.behind)[1] + 1)
    builder.connect("mix", value.behind, hub.expand(value.behind.shape), trace.path)
    return hub.view([1] * len(shape)).expand(tuple(shape))


def tell_about(
    trace: Interpreter,
    value: Value,
    labels: list[Tensor],
    shape: Sequence[int],
    dims: list[Dim],
) -> list[Tensor]:
    """Connect labels to the nodes behind another operand, unless those are the same nodes."""
    if value.behind is None or not labels:
        return labels
    own = nodes_behind(Value(Role.ACTIVATION, dims, labels=labels))
    if own is not None and bool(torch.isin(value.behind, own).all()):
        return labels
    hub = hub_label(trace, value, shape)
    return labels if hub is None else join(trace, "product", labels, [hub], shape, dims)
