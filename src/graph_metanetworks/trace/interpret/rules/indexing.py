"""Lookups and writes by index: the indexed dimensions are pinned, the others pass."""

from __future__ import annotations

import torch
from torch import Tensor

from graph_metanetworks.symmetry.axes import Dim, fixed, make_specific, pin, unify
from graph_metanetworks.trace.interpret import binding, wiring
from graph_metanetworks.trace.interpret.interpreter import Call
from graph_metanetworks.trace.interpret.labels import compact, lay_along, pattern, varies
from graph_metanetworks.trace.interpret.registry import rule
from graph_metanetworks.trace.interpret.value import Role, Value, highest
from graph_metanetworks.trace.record.operation import TensorRef


@rule("embedding")
def embedding(call: Call) -> Value:
    """Make a node for each word, with an edge from it to each feature."""
    table, indices = call.value("weight"), call.value("indices")
    dims = [*indices.dims, table.dims[1]]
    pin(table.dims[0], "word of a vocabulary")
    for dim in indices.dims:
        pin(dim, "index")
    if not table.is_weight:
        return Value(Role.ACTIVATION, dims, behind=wiring.nodes_behind(table))
    return _table_lookup(call, table, call["weight"].shape, dims, "embedding")


def _table_lookup(call: Call, table: Value, shape: tuple[int, ...], dims: list[Dim], kind: str) -> Value:
    builder = call.trace.builder
    out = call.out
    words, features = shape
    target = builder.label("neuron", call.path, out.shape, dims, [out.ndim - 1], 1)
    vocabulary = builder.nodes("vocabulary", call.path, table.dims[0], words, 0)
    builder.groups[-1].indexed = True
    ends = compact(target, {out.ndim - 1}).reshape(1, features)
    for view in table.views:
        source = lay_along(vocabulary, 0, 2)
        builder.attach(kind, view, table.dims, source, ends, call.path, sites=[0])
    binding.attach_later(call.trace, table, [(table.dims[1], ends)])
    return Value(Role.ACTIVATION, dims, labels=[target])


@rule("_embedding_bag", "_embedding_bag_forward_only")
def embedding_bag(call: Call) -> list[Value]:
    table = call.value("weight")
    pin(table.dims[0], "word of a vocabulary")
    dims = [fixed(call.out.shape[0], "bag of words"), table.dims[1]]
    if table.is_weight:
        result = _table_lookup(call, table, call["weight"].shape, dims, "embedding")
    else:
        result = Value(Role.ACTIVATION, dims)
    weights = call.get("per_sample_weights")
    if weights is not None:
        for dim in call.value(weights).dims:
            pin(dim, "index")
    rest = [  # the last one says which word had the largest value of each feature
        dims if ref.shape == call.out.shape else [fixed(n, call.name) for n in ref.shape]
        for ref in call.outs[1:]
    ]
    return [result, *(Value(Role.ACTIVATION, dims) for dims in rest)]


# ------------------------------------------------------------------ tensor[indices]


@rule("index", "_unsafe_index")
def index(call: Call) -> Value:
    ref: TensorRef = call["self"]
    given = [*call["indices"], *[None] * (ref.ndim - len(call["indices"]))]
    chosen = [i for i in given if i is not None]
    if any(i.dtype in (torch.bool, torch.uint8) for i in chosen):
        return _masked(call, chosen)
    value = call.value("self")
    used = [d for d, i in enumerate(given) if i is not None]
    for dim in used:
        pin(value.dims[dim], "indexed dimension")
    call.trace.mixes_along(value.dims, used)
    for one in chosen:
        for dim in call.value(one).dims:
            pin(dim, "index")
    index_ndim = max(i.ndim for i in chosen)
    first = used[0] if used == list(range(used[0], used[-1] + 1)) else 0
    passing = [value.dims[d] for d in range(ref.ndim) if d not in used]
    new = [fixed(n, "index") for n in call.out.shape[first : first + index_ndim]]
    dims = passing[:first] + new + passing[first:]
    if 0 in call.out.shape:
        return Value(value.role, dims, mixed=value.parameters)
    from_input = any(call.value(i).is_activation for i in chosen)
    if value.is_weight and from_input:
        return _site_lookup(call, value, used, dims, range(first, first + index_ndim))
    readable = all(i.has_value for i in chosen)
    role = Role.ACTIVATION if from_input else value.role

    def look_up(label: Tensor) -> Tensor:
        nowhere = torch.zeros([1] * index_ndim, dtype=torch.int64, device="cpu")
        where = (
            slice(None) if i is None else i.value.cpu() if varies(label, d) else nowhere
            for d, i in enumerate(given)
        )
        return compact(label, pattern(label))[tuple(where)].expand(call.out.shape)

    if readable:
        return _with_role(value.moved(dims, look_up), role)
    return _with_role(_without_values(value, dims, used, call.out), role)


def _with_role(value: Value, role: Role) -> Value:
    value.role = role
    return value


def _without_values(value: Value, dims: list[Dim], used: list[int], out: TensorRef) -> Value:
    """Look up by an index of unknown value; labels that do not vary along it are still known."""
    if value.is_weight:
        return Value(value.role, dims, mixed=value.parameters)
    kept = []
    for label in value.labels:
        if not pattern(label) & set(used) and len(pattern(label)) == 1:
            (dim,) = pattern(label)
            line = compact(label, {dim}).reshape(-1)
            passing = [d for d in range(label.dim()) if d not in used]
            where = passing.index(dim) - len(passing) + out.ndim if used[0] == 0 else dim
            kept.append(lay_along(line, where, out.ndim).expand(out.shape))
    behind = None if kept else wiring.nodes_behind(value)
    return Value(value.role, dims, labels=kept, behind=behind)


def _site_lookup(call: Call, table: Value, used: list[int], dims: list[Dim], index_dims: range) -> Value:
    """Look up a stored table, such as a hash grid, by the input: one node per site."""
    builder = call.trace.builder
    ref, out = call["self"], call.out
    kept = [d for d in range(ref.ndim) if d not in used]
    if len(kept) > 1:  # whole matrices are looked up: weights of an expert, not features of a site
        return Value(Role.WEIGHT, dims, mixed=table.parameters)
    features = [d for d in range(out.ndim) if d not in index_dims]
    target = builder.label("neuron", call.path, out.shape, dims, features, 1)
    small = compact(target, features)
    for dim in reversed(index_dims):
        small = small.squeeze(dim)
    shape = [ref.shape[d] if d in kept else 1 for d in range(ref.ndim)]
    ends = small.reshape(shape).expand(ref.shape)
    sites = Value(Role.WEIGHT, table.dims, labels=[ends])
    binding.bind(call.trace, "grid", table, sites, ref.shape)
    return Value(Role.ACTIVATION, dims, labels=[target])


def _masked(call: Call, chosen: list[TensorRef]) -> Value:
    """Select by a mask: the masked dimensions are pinned and become one."""
    value = call.value("self")
    count = sum(i.ndim if i.dtype in (torch.bool, torch.uint8) else 1 for i in chosen)
    if len(chosen) != 1 or call["indices"][0] is None:
        return binding.opaque(call)[0]
    for dim in [*value.dims[:count], *call.value(chosen[0]).dims]:
        pin(dim, "mask")
    call.trace.mixes_along(value.dims, range(count))
    dims = [fixed(call.out.shape[0], "mask"), *value.dims[count:]]
    role = max(value.role, call.value(chosen[0]).role)
    if role == Role.WEIGHT:
        return Value(role, dims, mixed=value.parameters)
    labels = [
        compact(label, range(count, label.dim())).reshape(1, *label.shape[count:]).expand(call.out.shape)
        for label in value.labels
        if not pattern(label) & set(range(count)) and 0 not in call.out.shape
    ]
    behind = None if labels else wiring.nodes_behind(value)
    return Value(role, dims, labels=labels, behind=behind)


@rule("index_select")
def index_select(call: Call) -> Value:
    ref, value = call["self"], call.value("self")
    dim = call["dim"] % ref.ndim
    pin(value.dims[dim], "indexed dimension")
    call.trace.mixes_along(value.dims, [dim])
    dims = [fixed(call.out.shape[dim], "index") if i == dim else d for i, d in enumerate(value.dims)]
    if value.is_weight and call.value("index").is_activation:
        features = [d for d in range(ref.ndim) if d != dim]
        builder = call.trace.builder
        target = builder.label("neuron", call.path, call.out.shape, dims, features, 1)
        ends = compact(target, features).expand([ref.shape[d] if d != dim else 1 for d in range(ref.ndim)])
        sites = Value(Role.WEIGHT, value.dims, labels=[ends.expand(ref.shape)])
        binding.bind(call.trace, "grid", value, sites, ref.shape)
        return Value(Role.ACTIVATION, dims, labels=[target])
    role = max(value.role, call.value("index").role)
    if call["index"].has_value:
        where = call["index"].value.cpu()

        def select(label: Tensor) -> Tensor:
            small = compact(label, pattern(label))
            return (small.index_select(dim, where) if varies(label, dim) else small).expand(call.out.shape)

        return _with_role(value.moved(dims, select), role)
    kept = [
        compact(x, set(range(ref.ndim)) - {dim}).expand(call.out.shape)
        for x in value.labels
        if not varies(x, dim)
    ]
    behind = None if kept else wiring.nodes_behind(value)
    return Value(role, dims, labels=kept, mixed=value.parameters, behind=behind)


@rule("gather")
def gather(call: Call) -> Value:
    ref, where = call["self"], call["index"]
    value, indices = call.use("self"), call.use("index")
    dim = call["dim"] % max(1, ref.ndim)
    pin(value.dims[dim], "indexed dimension")
    pin(indices.dims[dim], "index")
    call.trace.mixes_along(value.dims, [dim])
    for i in range(ref.ndim):
        if i == dim:
            continue
        if ref.shape[i] == where.shape[i]:
            unify(value.dims[i], indices.dims[i], call.name)
        else:
            pin(value.dims[i], "index")
            pin(indices.dims[i], "index")
    if value.is_weight:
        value = binding.lift(call.trace, value, ref.shape)
    kept = [
        compact(label, set(range(ref.ndim)) - {dim}).expand(call.out.shape)
        for label in value.labels
        if not varies(label, dim)
        and all(label.size(i) == 1 or label.size(i) == n for i, n in enumerate(where.shape) if i != dim)
    ]
    behind = None if kept else wiring.nodes_behind(value, indices)
    return Value(max(value.role, indices.role), indices.dims, labels=kept, behind=behind)


# ------------------------------------------------------------------ writes


@rule("scatter", "scatter_add", "scatter_reduce", "index_add", "index_copy")
def scatter(call: Call) -> Value:
    ref, where, source = call["self"], call["index"], call.get("src", "source")
    value, indices = call.value("self"), call.use("index")
    make_specific(value.dims)
    written = call.use(source) if isinstance(source, TensorRef) else None
    dim = call["dim"] % max(1, ref.ndim)
    pin(value.dims[dim], "indexed dimension")
    pin(indices.dims[dim] if where.ndim == ref.ndim else indices.dims[0], "index")
    call.trace.mixes_along(value.dims, [dim])
    if written:
        pin(written.dims[dim], "index")
        call.trace.mixes_along(written.dims, [dim])
    for i in range(ref.ndim):
        if i == dim:
            continue
        others = [(source, written)] if written else []
        if where.ndim == ref.ndim:
            others.append((where, indices))
        for other_ref, other in others:
            if other_ref.shape[i] == ref.shape[i]:
                unify(value.dims[i], other.dims[i], call.name)
            else:
                pin(value.dims[i], "index")
                pin(other.dims[i], "index")
    values = [v for v in (value, indices, written) if v is not None]
    if written is not None and written.is_weight and highest(values) == Role.ACTIVATION:
        written = binding.lift(call.trace, written, source.shape)
    base = [] if call.name == "scatter" and not value.labels else value.labels
    fresh = [
        compact(x, set(range(ref.ndim)) - {dim}).expand(call.out.shape)
        for x in (written.labels if written else [])
        if not varies(x, dim) and all(x.size(i) in (1, n) for i, n in enumerate(ref.shape) if i != dim)
    ]
    labels = wiring.join(call.trace, "residual", list(base), fresh, call.out.shape, value.dims)
    behind = None if labels else wiring.nodes_behind(*(v for v in (value, written) if v))
    mixed = frozenset().union(*(v.parameters for v in values))
    return Value(highest(values), value.dims, labels=labels, mixed=mixed, behind=behind)


@rule("index_put", "_index_put_impl")
def index_put(call: Call) -> Value:
    ref, source = call["self"], call["values"]
    value, written = call.value("self"), call.use("values")
    make_specific(value.dims)
    used, index_ndim, dim = [], 1, 0
    for one in call["indices"]:
        if one is None:
            dim += 1
            continue
        masks = one.dtype in (torch.bool, torch.uint8)
        count = one.ndim if masks else 1
        used += range(dim, dim + count)
        dim += count
        index_ndim = max(index_ndim, 1 if masks else one.ndim)
        for d in call.value(one).dims:
            pin(d, "index")
    for d in used:
        pin(value.dims[d], "indexed dimension")
    call.trace.mixes_along(value.dims, used)
    first = used[0] if used == list(range(used[0], used[-1] + 1)) else 0
    columns: list[Dim | None] = [value.dims[d] for d in range(ref.ndim) if d not in used]
    lengths: list[int] = [ref.shape[d] for d in range(ref.ndim) if d not in used]
    columns[first:first] = [None] * index_ndim
    lengths[first:first] = [0] * index_ndim
    for back in range(1, source.ndim + 1):
        column = columns[-back] if back <= len(columns) else None
        if column is None:
            pin(written.dims[-back], "index")
        elif source.shape[-back] == lengths[-back]:
            unify(column, written.dims[-back], call.name)
        elif source.shape[-back] != 1:
            pin(column, "index")
            pin(written.dims[-back], "index")
    values = [value, written]
    if written.is_weight and value.is_activation:
        written = binding.lift(call.trace, written, source.shape)
    labels = value.labels or _labels_from_written(written, source, used, ref)
    behind = None if labels else wiring.nodes_behind(value, written)
    mixed = value.parameters | written.parameters if highest(values) == Role.WEIGHT else frozenset()
    return Value(highest(values), value.dims, labels=labels, mixed=mixed, behind=behind)


def _labels_from_written(written: Value, source: TensorRef, used: list[int], ref: TensorRef) -> list[Tensor]:
    """Return labels of rows written by index into trailing channel dimensions."""
    if used != list(range(len(used))):
        return []
    trailing = ref.ndim - len(used)
    labels = []
    for label in written.labels:
        outer = {d for d in pattern(label) if d < source.ndim - trailing}
        if outer or source.shape[source.ndim - trailing :] != ref.shape[len(used) :]:
            continue
        small = compact(label, range(source.ndim - trailing, source.ndim))
        line = small.reshape(small.shape[source.ndim - trailing :])
        labels.append(line.reshape([1] * len(used) + list(line.shape)).expand(ref.shape))
    return labels
