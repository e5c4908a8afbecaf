"""Turn parameters into edges: elementwise on nodes, between nodes, or as data with nodes of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from graph_metanetworks.symmetry.axes import Dim, fixed, is_pinned, leaves, parents, pin, variables
from graph_metanetworks.trace.interpret import wiring
from graph_metanetworks.trace.interpret.builder import UnattachedParameter
from graph_metanetworks.trace.interpret.labels import View, canonical, compact, pattern
from graph_metanetworks.trace.interpret.value import Role, Value, highest

if TYPE_CHECKING:
    from graph_metanetworks.trace.interpret.interpreter import Call, Interpreter


def bind(trace: Interpreter, kind: str, weight: Value, value: Value, shape: Sequence[int]) -> None:
    """Add edges for parameters that act elementwise: from a node of their own to the tensor's nodes.

    The tensor's value is given nodes if it has none that fit.
    """
    shape = tuple(max(1, n) for n in shape)
    for view in weight.views:
        _bind_view(trace, kind, view.expand(shape), value, shape)
    attach_later(trace, weight, _along(value.dims, value.labels))


def attach_later(trace: Interpreter, weight: Value, nearby: list[tuple[Dim, Tensor]]) -> None:
    """Remember the nodes along shared axes for parameters that went through arithmetic."""
    fine = [(dim, nodes.reshape(-1)) for dim, nodes in nearby]
    fine += [found for dim, nodes in fine for found in _by_axis(dim, nodes)]
    for name in sorted(weight.mixed):
        trace.builder.loose.append(UnattachedParameter(name, trace.path, fine))


def connect_through(trace: Interpreter, source: Tensor, target: Tensor) -> None:
    """Connect nodes through one hub, for a weight made by arithmetic whose edges are attached later."""
    builder = trace.builder
    sources = compact(source, pattern(source)).reshape(-1)
    hub = builder.node("mix", trace.path, builder.depths(sources)[1] + 1)
    builder.connect("mix", sources, hub.expand(sources.shape), trace.path)
    targets = compact(target, pattern(target)).reshape(-1)
    for group in builder.groups_in(targets):
        group.depth = max(group.depth, builder.group_of(int(hub)).depth + 1)
    bare = set(builder.bare)
    builder.connect("mix", hub.expand(targets.shape), targets, trace.path)
    builder.bare = bare


def _by_axis(dim: Dim, nodes: Tensor) -> list[tuple[Dim, Tensor]]:
    """Return the one axis along which nodes of several axes differ, with its nodes."""
    axes = leaves(dim)
    label = canonical(nodes.reshape([axis.size for axis in axes]))
    along = pattern(label)
    if len(axes) == 1 or len(along) != 1:
        return []
    (which,) = along
    return [([axes[which]], compact(label, along).reshape(-1))]


def _bind_view(trace: Interpreter, kind: str, view: View, value: Value, shape: tuple[int, ...]) -> None:
    builder, dims = trace.builder, value.dims
    varying = pattern(view.label)
    target = _fitting_label(trace, varying, value, shape)
    if pattern(target) - varying:  # one parameter for several nodes: they share a hub
        depth = max(0, builder.depths(target)[0] - 1)
        seen = [compact(target, varying)]
        hub = builder.label_like("shared", trace.path, shape, dims, seen, depth)
        builder.connect("share", hub, target, trace.path)
        target = hub
    sites = varying - pattern(target)
    if kind == "shift":
        kind = "position" if sites else _bias_kind(trace, target)
    for group in builder.groups_in(target):
        builder.bare.discard(group.start)
    if "norm" in kind:  # a norm layer has one node for its scale; positions are parallel edges
        sites = set()
    sites |= _depended_on(dims, sites, varying)
    depth = builder.depths(target)[1]
    if sites and view.label.device.type != "meta":  # repeated rows (of a batch) are one site
        source = _distinct_sites(trace, kind, compact(view.label, sites), shape, dims, max(0, depth - 1))
    else:
        source = source_nodes(trace, kind, shape, dims, sites, depth)
    builder.attach(kind, view, dims, source, target, trace.path, sites)


def _distinct_sites(
    trace: Interpreter, kind: str, rows: Tensor, shape: tuple[int, ...], dims: Sequence[Dim], depth: int
) -> Tensor:
    """Make one node per entry of a table, however often and in whatever order it was looked up."""
    builder = trace.builder
    if all(is_pinned(dims[d]) for d in pattern(rows)):
        elements, place = rows.unique(return_inverse=True)
        count = elements.numel()
        nodes = builder.nodes(kind, trace.path, fixed(count, "place in a table"), count, depth)
        source = nodes[place].expand(shape)
    else:
        source = builder.label_like(kind, trace.path, shape, dims, [rows], depth)
    builder.groups[-1].indexed = True
    return source


def _depended_on(dims: Sequence[Dim], sites: set[int], varying: set[int]) -> set[int]:
    """Return the dimensions on which sites depend, such as channels that each permute their own states."""
    needed = {parent for d in sites for v in variables(dims[d]) if not v.pinned for parent in parents(v)}
    return {d for d in varying if needed & set(leaves(dims[d]))}


def _bias_kind(trace: Interpreter, target: Tensor) -> str:
    """Return the kind of a shift. The first one after a linear map is its bias, however it was written."""
    groups = trace.builder.groups_in(target)
    if len(groups) != 1 or groups[0].start not in trace.builder.bare:
        return "shift"
    return "convolution bias" if groups[0].kind == "channel" else "linear bias"


def _fitting_label(trace: Interpreter, varying: set[int], value: Value, shape: tuple[int, ...]) -> Tensor:
    """Return the label that shares most dimensions with a parameter; make one if there is none."""

    def fit(label: Tensor) -> tuple[int, int]:
        return len(pattern(label) & varying), -len(pattern(label) - varying)

    found = max(value.labels, key=fit, default=None)
    if found is not None and (not varying or pattern(found) & varying):
        full = wiring.complete(trace, found, value)
        value.labels = [full if label is found else label for label in value.labels]
        return full
    usual = 1 if len(shape) > 3 else len(shape) - 1  # where channels usually are, for a scalar
    along = max(varying) if varying else usual
    if found is None and value.is_activation and shape:
        return wiring.label_along(trace, value, shape, along)
    where = [along] if varying else []
    label = trace.builder.label("neuron", trace.path, shape, value.dims, where, 1)
    value.labels.append(label)
    return label


def _along(dims: Sequence[Dim], labels: Sequence[Tensor]) -> list[tuple[Dim, Tensor]]:
    """Return axes with the nodes along them, for labels that vary along one dimension."""
    return [
        (dims[d], compact(label, {d}).reshape(-1))
        for label in labels
        for d in pattern(label)
        if pattern(label) == {d}
    ]


def attach_weight(
    trace: Interpreter,
    kind: str,
    view: View,
    dims: list[Dim],
    source: Tensor,
    target: Tensor,
    *,
    pooled: bool = False,
) -> None:
    """Add edges from `source` to `target`.

    A parameter that is a factor of one end only acts on that end alone.

    Weight norm has one gain per output: its elements do not vary along the inputs.
    """
    builder = trace.builder
    shape = torch.broadcast_shapes(view.label.shape, source.shape, target.shape)
    source, target = source.expand(shape), target.expand(shape)
    varying = pattern(view.label.expand(shape))
    fits_source, fits_target = pattern(source) <= varying, pattern(target) <= varying
    if not fits_source and not fits_target:
        nearby = _along(dims, [source, target])
        builder.loose.append(UnattachedParameter(view.parameter, trace.path, nearby))
        return
    if not (fits_source and fits_target):
        target = target if fits_target else source
        kind = "scale"
        source = source_nodes(trace, kind, shape, dims, set(), builder.depths(target)[1])
    builder.attach(kind, view, dims, source, target, trace.path, pooled=pooled)


def source_nodes(
    trace: Interpreter,
    kind: str,
    shape: Sequence[int],
    dims: Sequence[Dim],
    sites: set[int],
    target_depth: int,
) -> Tensor:
    """Make the source of an elementwise parameter: one node, or one per position if it varies."""
    depth = max(0, target_depth - 1)
    label = trace.builder.label(kind, trace.path, shape, dims, sites, depth)
    trace.builder.groups[-1].indexed = bool(sites)
    return label


def lift(trace: Interpreter, value: Value, shape: Sequence[int]) -> Value:
    """Turn a parameter used as data (a class token, latents) into an activation with nodes of its own."""
    if not value.is_weight:
        return value
    lifted = Value(Role.WEIGHT, value.dims)
    bind(trace, "token", value, lifted, shape)
    lifted.role = Role.ACTIVATION
    return lifted


def opaque(call: Call) -> list[Value]:
    """Pin everything that goes in or comes out, which is sound for any operation."""
    values = [call.value(ref) for ref in call.tensors]
    reason = f"{call.operation.func} in '{call.path}'"
    for value in values:
        for dim in value.dims:
            pin(dim, reason)
    role = Role.ACTIVATION if highest(values) > Role.CONSTANT else Role.CONSTANT
    activations = []
    for ref, value in zip(call.tensors, values, strict=True):
        activations.append(lift(call.trace, value, ref.shape))
    behind = wiring.nodes_behind(*activations)
    return [Value(role, [fixed(n, reason) for n in ref.shape], behind=behind) for ref in call.outs]
