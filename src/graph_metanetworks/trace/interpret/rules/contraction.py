"""Matrix products: contracted axes are unified, the others pass through.

Index letters: b batch, n rows, k contracted, m columns; x [b, n, k] times w [b, k, m] gives [b, n, m].
"""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from graph_metanetworks.symmetry.axes import Dim, fixed, is_pinned, leaves, pin, unify, unify_dims
from graph_metanetworks.trace.interpret import binding, wiring
from graph_metanetworks.trace.interpret.interpreter import Call
from graph_metanetworks.trace.interpret.labels import compact, number_sets, pattern, varies
from graph_metanetworks.trace.interpret.registry import rule
from graph_metanetworks.trace.interpret.rules.attention import dot
from graph_metanetworks.trace.interpret.value import Role, Value
from graph_metanetworks.trace.record.operation import TensorRef

Shape3 = tuple[int, int, int]


@rule("mm", "bmm")
def matrix_product(call: Call) -> Value:
    return product(call, call["self"], call["mat2"])


@rule("addmm", "baddbmm")
def matrix_product_plus(call: Call) -> Value:
    result = product(call, call.get("mat1", "batch1"), call.get("mat2", "batch2"))
    return add_bias(call, result, call["self"], "linear bias")


def product(call: Call, left: TensorRef, right: TensorRef) -> Value:
    x, w = call.use(left), call.use(right)
    lone = left.ndim == 2
    x3, w3 = (_with_batch(x), _with_batch(w)) if lone else (x, w)
    result = contract(call, x3, w3, _shape3(left), _shape3(right))
    if not lone:
        return result
    _keep_labels(x, x3)
    _keep_labels(w, w3)
    return result.moved(result.dims[1:], lambda label: label.squeeze(0))


def _shape3(ref: TensorRef) -> Shape3:
    batch = ref.shape[0] if ref.ndim == 3 else 1
    return batch, ref.shape[-2], ref.shape[-1]


def _with_batch(value: Value) -> Value:
    return value.moved([[], *value.dims], lambda label: label.unsqueeze(0))


def _keep_labels(value: Value, lifted: Value) -> None:
    """Hand nodes that the contraction made for an operand to that operand."""
    if len(lifted.labels) != len(value.labels) or lifted.behind is not value.behind:
        value.labels = [label.squeeze(0) for label in lifted.labels]
        value.behind = lifted.behind


def contract(call: Call, x: Value, w: Value, x_shape: Shape3, w_shape: Shape3) -> Value:
    unify_dims([[x.dims[0], w.dims[0]]], call.name)
    unify_dims([[x.dims[2], w.dims[1]]], call.name)
    batch = x.dims[0] if x_shape[0] > 1 else w.dims[0]
    dims = [batch, x.dims[1], w.dims[2]]
    shape = (max(x_shape[0], w_shape[0]), x_shape[1], w_shape[2])
    joint = [*dims, x.dims[2]]
    call.trace.seen(joint, activation=True)
    call.trace.mixes_along(x.dims, [2])
    call.trace.mixes_along(w.dims, [1])
    if 0 in (*x_shape, *w_shape):
        return Value(max(x.role, w.role), dims)
    if Role.ACTIVATION not in (x.role, w.role):
        if Role.WEIGHT not in (x.role, w.role):
            return Value(Role.CONSTANT, dims)
        if not (w.is_weight and _serves_as_data(call, x, w)):
            return Value(Role.WEIGHT, dims, mixed=x.parameters | w.parameters)
        x = binding.lift(call.trace, x, x_shape)
    if w.is_weight and _is_looked_up(call, x, w, w_shape):
        w = _lift_rows(call, w, w_shape, 1)
        return dot(call, x, w, x_shape, w_shape, dims, of_positions=True)
    if w.is_weight:
        return apply_weight(call, x, w, x_shape, shape, dims)
    if x.is_weight and _is_looked_up(call, _transposed(w), _transposed(x), x_shape):
        x = _lift_rows(call, x, x_shape, 2)
        return dot(call, x, w, x_shape, w_shape, dims, of_positions=True)
    if x.is_weight:
        flipped = apply_weight(
            call,
            _transposed(w),
            _transposed(x),
            (w_shape[0], w_shape[2], w_shape[1]),
            (shape[0], shape[2], shape[1]),
            [dims[0], dims[2], dims[1]],
        )
        return replace(_transposed(flipped), dims=dims)
    return dot(call, x, w, x_shape, w_shape, dims)


def _serves_as_data(call: Call, x: Value, w: Value) -> bool:
    """Return whether x is data such as latents or an initial state, to which w is applied."""
    trace, path = call.trace, call.path
    if x.is_weight:
        return bool(path) and trace.owns(path, w) and not trace.owns(path, x)
    uniform = not is_pinned(x.dims[2])  # zeros, not a basis that shapes the weight
    return uniform or type(trace.module(path)).__module__.startswith("torch.nn")


def _is_looked_up(call: Call, x: Value, w: Value, w_shape: Shape3) -> bool:
    """Return whether w has rows of a table, such as one for each distance between a query and a key.

    They differ from position to position, while the nodes of x are the same at every position.
    """
    own = call.trace.axes_of(w.parameters)
    return (
        w_shape[0] > 1
        and all(is_pinned(dim) and own.isdisjoint(leaves(dim)) for dim in (w.dims[0], w.dims[2]))
        and not own.isdisjoint(leaves(w.dims[1]))
        and all(0 in pattern(view.label) for view in w.views)
        and not any(varies(label, 0) for label in x.labels)
    )


def _lift_rows(call: Call, table: Value, shape: Shape3, channels: int) -> Value:
    """Give nodes to the channels of a table; each row that was looked up starts at a node of its own."""
    label = call.trace.builder.label("neuron", call.path, shape, table.dims, [channels], 1)
    lifted = Value(Role.WEIGHT, table.dims, labels=[label])
    binding.bind(call.trace, "position", table, lifted, shape)
    return replace(lifted, role=Role.ACTIVATION)


def _transposed(value: Value) -> Value:
    dims = [value.dims[0], value.dims[2], value.dims[1]]
    return value.moved(dims, lambda label: label.transpose(1, 2))


def apply_weight(call: Call, x: Value, w: Value, x_shape: Shape3, shape: Shape3, dims: list[Dim]) -> Value:
    """Add a linear layer: nodes for the columns, one edge per element of the weight."""
    trace, builder = call.trace, call.trace.builder
    source = wiring.label_along(trace, x, x_shape, 2)
    per_batch = {0} if any(0 in pattern(view.label) for view in w.views) else set()
    outside = pattern(source) - per_batch - {2}  # node sets that share this weight
    sets = number_sets(compact(source, outside | {2}), 2)
    depth = builder.depths(source)[1] + 1
    if outside:
        inner = builder.label("shared", call.path, x_shape, x.dims, per_batch | {2}, depth)
        builder.connect("share", source, inner, call.path)
        source, depth = inner, depth + 1
    target = _columns(call, w, shape, dims, per_batch, depth)
    sources = compact(source, per_batch | {2}).transpose(1, 2)  # [b, k, 1]
    targets = compact(target, per_batch | {2})  # [b, 1, m]
    for view in w.views:
        binding.attach_weight(trace, "linear weight", view, w.dims, sources, targets, pooled=x.pooled)
    binding.attach_later(trace, w, [(x.dims[2], compact(source, {2})), (dims[2], compact(target, {2}))])
    if not w.views:
        binding.connect_through(trace, source, target)
    passing = [compact(label, {0, 1}).expand(shape) for label in x.labels[1:] if not varies(label, 2)]
    if outside:
        told = [target, sets.expand(shape)]  # a batch may hold each of the node sets several times
        outer = builder.label_like("neuron", call.path, shape, dims, told, depth + 1)
        builder.connect("share", target, outer, call.path)
        target = outer
    return Value(Role.ACTIVATION, dims, labels=[target, *passing], pooled=x.pooled)


def _columns(call: Call, w: Value, shape: Shape3, dims: list[Dim], per_batch: set[int], depth: int) -> Tensor:
    """Make nodes for the columns; for a weight made by arithmetic, only for the channels among them."""
    builder = call.trace.builder
    axes = leaves(dims[2])
    own = call.trace.axes_of(w.mixed)
    along = [i for i, axis in enumerate(axes) if axis in own]
    if w.views or not along:
        label = builder.label("neuron", call.path, shape, dims, per_batch | {2}, depth)
    else:
        lengths = [axis.size for axis in axes]
        fine = builder.label("neuron", call.path, lengths, [[a] for a in axes], along, depth)
        label = fine.reshape(1, 1, -1).expand(shape)
    builder.bare.add(builder.groups[-1].start)
    return label


def add_bias(call: Call, result: Value, bias: TensorRef | None, kind: str, first: int | None = None) -> Value:
    """Add a tensor, aligned to the last dimensions or starting at dimension `first`."""
    if bias is None:
        return result
    value = call.use(bias)
    shape = tuple(max(1, n) for n in call.out.shape)  # an empty tensor has the labels of a single position
    first = len(shape) - bias.ndim if first is None else first
    for index, (length, dim) in enumerate(zip(bias.shape, value.dims, strict=True), first):
        if length > 1:
            unify(dim, result.dims[index], kind)
    places = [bias.shape[i - first] if first <= i < first + bias.ndim else 1 for i in range(len(shape))]
    laid = value.moved(result.dims, lambda label: label.reshape(places).expand(shape))
    if value.is_weight and result.is_activation:
        binding.bind(call.trace, kind, laid, result, shape)
    elif value.is_weight:
        result.mixed |= value.parameters
    elif value.is_activation:
        result.labels = wiring.join(call.trace, "residual", result.labels, laid.labels, shape, result.dims)
    return result


# ------------------------------------------------------------------ other products


@rule("_trilinear")
def bilinear(call: Call) -> Value:
    """Handle `nn.Bilinear`: y[n, o] = sum x1[n, i] w[o, i, j] x2[n, j], with a node for each pair (i, j)."""
    trace, builder = call.trace, call.trace.builder
    first, w, second = call.use("i1"), call.use("i2"), call.use("i3")
    if not w.is_weight or call["i1"].ndim != 2:
        return binding.opaque(call)[0]
    unify(first.dims[0], second.dims[0], call.name)
    unify(first.dims[1], w.dims[1], call.name)
    unify(second.dims[1], w.dims[2], call.name)
    dims = [first.dims[0], w.dims[0]]
    trace.seen([*dims, w.dims[1], w.dims[2]], activation=True)
    outs, rows, columns = call["i2"].shape
    left = wiring.label_along(trace, first, call["i1"].shape, 1)
    right = wiring.label_along(trace, second, call["i3"].shape, 1)
    left = compact(left, {1}).reshape(rows, 1).expand(rows, columns)
    right = compact(right, {1}).reshape(1, columns).expand(rows, columns)
    depth = builder.depths(left, right)[1] + 1
    pair = builder.label("product", call.path, (rows, columns), w.dims[1:], [0, 1], depth)
    builder.connect("left factor", left, pair, call.path)
    builder.connect("right factor", right, pair, call.path)
    target = builder.label("neuron", call.path, call.out.shape, dims, [1], depth + 1)
    for view in w.views:
        ends = compact(target, {1}).reshape(outs, 1, 1)
        builder.attach("bilinear weight", view, w.dims, pair.unsqueeze(0), ends, call.path)
    binding.attach_later(trace, w, [])
    return Value(Role.ACTIVATION, dims, labels=[target])


@rule("_grouped_mm")
def grouped_product(call: Call) -> Value:
    """Multiply rows of x by one of several matrices; the experts are not permuted."""
    trace, builder = call.trace, call.trace.builder
    x, w = call.use("self"), call.use("mat2")
    if not w.is_weight or call["mat2"].ndim != 3 or call["self"].ndim != 2:
        return binding.opaque(call)[0]
    pin(w.dims[0], "choice of expert")
    unify(x.dims[1], w.dims[1], call.name)
    dims = [x.dims[0], w.dims[2]]
    trace.seen([*dims, x.dims[1]], activation=True)
    source = wiring.label_along(trace, x, call["self"].shape, 1)
    target = builder.label("neuron", call.path, call.out.shape, dims, [1], builder.depths(source)[1] + 1)
    for view in w.views:
        sources = compact(source, {1}).reshape(1, -1, 1)
        targets = compact(target, {1}).reshape(1, 1, -1)
        builder.attach("expert weight", view, w.dims, sources, targets, call.path)
    binding.attach_later(trace, w, [(x.dims[1], compact(source, {1})), (dims[1], compact(target, {1}))])
    return Value(Role.ACTIVATION, dims, labels=[target])


@rule("linalg_solve_triangular", "_linalg_solve_ex", "linalg_inv_ex")
def solve(call: Call) -> list[Value]:
    """Solve a system, which mixes the rows of the unknown; its columns pass through."""
    values = [call.use(ref) for ref in call.tensors]
    batch = call.out.ndim - 2
    unify_dims([[value.dims[i] for value in values] for i in range(batch)], call.name)
    for dim in values[0].dims[batch:]:
        pin(dim, call.name)
    last = values[-1]
    if len(values) > 1:
        pin(last.dims[batch], call.name)
    behind = wiring.nodes_behind(*values)
    first = Value(Role.ACTIVATION, last.dims, behind=behind)
    rest = [Value(Role.ACTIVATION, [fixed(n, call.name) for n in ref.shape]) for ref in call.outs[1:]]
    return [first, *rest]
