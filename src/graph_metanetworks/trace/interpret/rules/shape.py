"""View-like operations: axes are cut, permuted and joined; the operation itself runs on the labels."""

from __future__ import annotations

from itertools import accumulate

import torch
from torch import Tensor

from graph_metanetworks.symmetry.axes import (
    Axis,
    Cases,
    Dim,
    concatenate,
    cut,
    fixed,
    free,
    is_pinned,
    leaves,
    narrow,
    pin,
    reshape,
    unify_dims,
)
from graph_metanetworks.trace.interpret import binding, wiring
from graph_metanetworks.trace.interpret.interpreter import Call
from graph_metanetworks.trace.interpret.labels import (
    NOTHING,
    View,
    canonical,
    compact,
    laid_together,
    pattern,
    reshaped,
    varies,
)
from graph_metanetworks.trace.interpret.registry import rule
from graph_metanetworks.trace.interpret.value import Role, Value, highest
from graph_metanetworks.trace.record.operation import TensorRef


def moved(call: Call, dims: list[Dim]) -> Value:
    """Return the result of an operation that only moves elements."""
    value = call.value("self")
    if 0 in call.out.shape or 0 in call["self"].shape:
        return Value(value.role, dims, mixed=value.parameters)
    return value.moved(dims, call.rerun)


@rule("view", "_unsafe_view", "reshape", "_reshape_alias", "unsqueeze", "squeeze")
def view(call: Call) -> Value:
    shape = call.out.shape
    value = call.value("self")
    dims = reshape(value.dims, shape)
    if 0 in shape:
        return Value(value.role, dims, mixed=value.parameters)
    return value.moved(dims, lambda label: reshaped(label, shape))


@rule("permute")
def permute(call: Call) -> Value:
    dims = call.value("self").dims
    return moved(call, [dims[i] for i in call["dims"]])


@rule("t", "transpose")
def transpose(call: Call) -> Value:
    dims = list(call.value("self").dims)
    first, second = (call["dim0"], call["dim1"]) if "dim0" in call.arguments else (0, -1)
    if len(dims) > 1:
        dims[first], dims[second] = dims[second], dims[first]
    return moved(call, dims)


@rule("expand")
def expand(call: Call) -> Value:
    value, old, shape = call.value("self"), call["self"].shape, call.out.shape
    first = len(shape) - len(old)
    dims = [
        value.dims[i - first]
        if i >= first and old[i - first] == length
        else free(length, "expand", generic=True)
        for i, length in enumerate(shape)
    ]
    return moved(call, dims)


@rule("repeat")
def repeat(call: Call) -> Value:
    value, repeats = call.value("self"), list(call["repeats"])
    first = len(repeats) - len(value.dims)
    dims = [
        free(count, "repeat", generic=True) + (list(value.dims[i - first]) if i >= first else [])
        for i, count in enumerate(repeats)
    ]
    if 0 in call.out.shape or 0 in call["self"].shape:
        return Value(value.role, dims, mixed=value.parameters)

    def repeated(label: Tensor) -> Tensor:
        counts = [n if i >= first and varies(label, i - first) else 1 for i, n in enumerate(repeats)]
        return compact(label, pattern(label)).repeat(counts).expand(call.out.shape)

    return value.moved(dims, repeated)


@rule("detach", "alias", "clone", "_to_copy", "lift_fresh", "lift_fresh_copy", "lift")
def same(call: Call) -> Value:
    return call.value(call.tensors[0])


@rule("as_strided")
def as_strided(call: Call) -> Value:
    if call.out.shape != call["self"].shape or call.out.strides != call["self"].strides:
        return binding.opaque(call)[0]
    return call.value("self")


# ------------------------------------------------------------------ slicing


@rule("slice")
def slice_(call: Call) -> Value:
    value, ref = call.value("self"), call["self"]
    dim, step, length = call["dim"] % ref.ndim, call["step"], call.out.shape[call["dim"]]
    total = ref.shape[dim]
    start = call["start"] or 0
    start = max(0, min(total, start + total if start < 0 else start))
    if step == 1:
        return moved(call, narrow(value.dims, dim, start, length))
    call.trace.mixes_along(value.dims, [dim])
    outer, inner = cut(value.dims[dim], length) if total == length * step else ([], [])
    if outer and start < step:
        pin(inner, "a strided slice")
    else:
        pin(value.dims[dim], "a strided slice")
        outer = fixed(length, "a strided slice")
    return moved(call, [outer if i == dim else d for i, d in enumerate(value.dims)])


@rule("select")
def select(call: Call) -> Value:
    ref, value = call["self"], call.value("self")
    dim = call["dim"] % ref.ndim
    dims = narrow(value.dims, dim, call["index"] % ref.shape[dim], 1)
    del dims[dim]
    return moved(call, dims)


@rule("split", "split_with_sizes", "unsafe_split", "unsafe_split_with_sizes")
def split(call: Call) -> list[Value]:
    value = call.value("self")
    dim = call["dim"] % call["self"].ndim
    lengths = [out.shape[dim] for out in call.outs]
    starts = [0, *accumulate(lengths)]
    dims = [narrow(value.dims, dim, start, n) for start, n in zip(starts, lengths, strict=False)]
    return value.moved_all(dims, call.rerun_all)


@rule("unbind")
def unbind(call: Call) -> list[Value]:
    value = call.value("self")
    dim = call["dim"] % call["self"].ndim
    all_dims = []
    for index in range(len(call.outs)):
        dims = narrow(value.dims, dim, index, 1)
        del dims[dim]
        all_dims.append(dims)
    return value.moved_all(all_dims, call.rerun_all)


# ------------------------------------------------------------------ joining


@rule("cat")
def cat(call: Call) -> Value:
    out = call.out
    dim = call["dim"] % out.ndim
    parts = [ref for ref in call["tensors"] if ref.ndim == out.ndim and ref.shape[dim]]
    values = [call.use(ref) for ref in parts]
    others = [i for i in range(out.ndim) if i != dim]
    unify_dims([[value.dims[i] for value in values] for i in others], "cat")
    dims = list(values[0].dims)
    dims[dim] = concatenate(
        [(ref.shape[dim], value.dims[dim]) for ref, value in zip(parts, values, strict=True)]
    )
    role = highest(values)
    if 0 in out.shape:
        return Value(role, dims)
    if role == Role.ACTIVATION:
        return Value(role, dims, **_cat_activations(call, dim, dims, parts, values))
    return _cat_weights(role, dim, dims, parts, values, out)


def _cat_weights(
    role: Role,
    dim: int,
    dims: list[Dim],
    parts: list[TensorRef],
    values: list[Value],
    out: TensorRef,
) -> Value:
    """Concatenate parameters: each part is visible at its own position, and nothing elsewhere."""
    views, start = [], 0
    for ref, value in zip(parts, values, strict=True):
        for part in value.views:
            own = part.dense()
            keep = pattern(own) | {dim}
            shape = [n if d in keep else 1 for d, n in enumerate(out.shape)]
            label = torch.full(shape, NOTHING, dtype=torch.int64, device="cpu")
            label.narrow(dim, start, ref.shape[dim]).copy_(compact(own, keep))
            views.append(View(part.parameter, canonical(label.expand(out.shape))))
        start += ref.shape[dim]
    mixed = frozenset().union(*(value.mixed for value in values))
    return Value(role, dims, views=views, mixed=mixed)


def _cat_activations(
    call: Call, dim: int, dims: list[Dim], parts: list[TensorRef], values: list[Value]
) -> dict:
    """Concatenate: channels keep their own nodes, positions share the nodes of their channels."""
    trace = call.trace
    activations = [value for value in values if value.is_activation]
    labels = [label for value in activations for label in value.labels]
    if not labels and not any(value.is_weight for value in values):
        return {"behind": wiring.nodes_behind(*activations)}
    channels = any(varies(label, dim) for label in labels) or any(
        ref.shape[dim] == 1 and value.labels and not any(pattern(x) for x in value.labels)
        for ref, value in zip(parts, values, strict=True)
    )
    if channels:
        pieces = []
        for ref, value in zip(parts, values, strict=True):
            if value.is_weight:
                value = _lift_along(call, value, ref, dim)
            label = wiring.label_along(trace, value, ref.shape, dim).expand(ref.shape)
            pieces.append(wiring.own_nodes(trace, label, pieces, ref.shape, value.dims))
        return {"labels": [canonical(torch.cat(laid_together(pieces, dim), dim).expand(call.out.shape))]}
    shape = [1 if i == dim else n for i, n in enumerate(call.out.shape)]
    inner = [[] if i == dim else d for i, d in enumerate(dims)]
    joined: list[Tensor] = []
    for value in activations:
        own = [label.narrow(dim, 0, 1) for label in value.labels]
        joined = wiring.join(trace, "residual", joined, own, shape, inner)
    for ref, value in zip(parts, values, strict=True):
        if value.is_weight:
            wide = Value(Role.WEIGHT, value.dims, [label.expand(ref.shape) for label in joined])
            binding.bind(trace, "token", value, wide, ref.shape)
            joined += [label.narrow(dim, 0, 1) for label in wide.labels[len(joined) :]]
    return {"labels": [label.expand(call.out.shape) for label in joined]}


def _lift_along(call: Call, value: Value, ref: TensorRef, dim: int) -> Value:
    label = call.trace.builder.label("neuron", call.path, ref.shape, value.dims, [dim], 1)
    lifted = Value(Role.ACTIVATION, value.dims, labels=[label])
    binding.bind(call.trace, "token", value, lifted, ref.shape)
    return lifted


@rule("stack")
def stack(call: Call) -> Value:
    """Stack tensors. Each slice keeps its own action: the other dimensions become cases over the new one."""
    out, parts = call.out, call["tensors"]
    dim = call["dim"] % out.ndim
    values = [call.use(ref) for ref in parts]
    over = fixed(len(parts), "stack")
    dims = [_stacked([value.dims[i] for value in values], n, over) for i, n in enumerate(parts[0].shape)]
    dims.insert(dim, over)
    role = highest(values)
    if role < Role.ACTIVATION:
        mixed = frozenset().union(*(value.mixed for value in values))
        views = []
        for index, value in enumerate(values):
            for part in value.views:
                own = part.dense()
                small = compact(own, pattern(own))
                shape = [*small.shape[:dim], len(parts), *small.shape[dim:]]
                label = torch.full(shape, NOTHING, dtype=torch.int64, device="cpu")
                label.select(dim, index).copy_(small)
                views.append(View(part.parameter, canonical(label.expand(out.shape))))
        return Value(role, dims, views=views, mixed=mixed)
    lifted = [binding.lift(call.trace, value, ref.shape) for ref, value in zip(parts, values, strict=True)]
    labelled = [label for value in lifted for label in value.labels]
    if not labelled:
        return Value(role, dims, behind=wiring.nodes_behind(*lifted))
    along = max(pattern(labelled[0]), default=len(parts[0].shape) - 1)
    labels = [
        wiring.only_label(call.trace, value, ref.shape, along)
        for ref, value in zip(parts, lifted, strict=True)
    ]
    return Value(role, dims, labels=[canonical(torch.stack(laid_together(labels), dim).expand(out.shape))])


def _stacked(columns: list[Dim], length: int, over: Dim) -> Dim:
    columns = [leaves(column) for column in columns]
    if all(column == columns[0] for column in columns) or length == 1:
        return columns[0]
    if all(is_pinned(column) for column in columns):
        return fixed(length, "stack")
    return [Axis(length, form=Cases(over, [(1, column) for column in columns]))]


# ------------------------------------------------------------------ padding


@rule(
    "constant_pad_nd",
    "reflection_pad1d",
    "reflection_pad2d",
    "reflection_pad3d",
    "replication_pad1d",
    "replication_pad2d",
    "replication_pad3d",
)
def pad(call: Call) -> Value:
    ref, value, out = call["self"], call.value("self"), call.out
    amounts = list(call.get("pad", "padding"))
    dims = list(value.dims)
    grows = [out.shape[d] != ref.shape[d] for d in range(ref.ndim)]
    call.trace.mixes_along(dims, [d for d, grown in enumerate(grows) if grown])
    for index in range(len(amounts) // 2):
        dim = ref.ndim - 1 - index
        before, after = amounts[2 * index : 2 * index + 2]
        if (before, after) == (0, 0):
            continue
        if call.name == "constant_pad_nd" and before >= 0 and after >= 0 and not is_pinned(dims[dim]):
            edges = [(before, free(before, "pad")), (ref.shape[dim], dims[dim])]
            dims[dim] = concatenate([*edges, (after, free(after, "pad"))])
        else:
            pin(dims[dim], call.name)
            dims[dim] = fixed(out.shape[dim], call.name)
    if value.role < Role.ACTIVATION:
        return Value(value.role, dims, mixed=value.parameters)
    labels = [_pad_label(label, amounts, out.shape) for label in value.labels]
    origin = value.origin and value.origin.moved(lambda x: _pad_label(x, amounts, out.shape))
    return Value(value.role, dims, labels=labels, origin=origin, behind=value.behind)


def _pad_label(label: Tensor, amounts: list[int], shape: tuple[int, ...]) -> Tensor:
    """Pad a label. Padded channels have no node; padded positions belong to the nodes of their channel."""
    kept = list(amounts)
    for index in range(len(amounts) // 2):
        if not varies(label, label.dim() - 1 - index):
            kept[2 * index : 2 * index + 2] = [0, 0]
    padded = torch.nn.functional.pad(compact(label, pattern(label)), kept, value=NOTHING)
    return canonical(padded).expand(shape)
