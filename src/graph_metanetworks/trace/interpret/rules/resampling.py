"""Pooling, interpolation and grid lookup: channels pass, positions are pinned."""

from __future__ import annotations

from torch import Tensor

from graph_metanetworks.symmetry.axes import fixed, pin, unify
from graph_metanetworks.trace.interpret import binding, wiring
from graph_metanetworks.trace.interpret.interpreter import Call
from graph_metanetworks.trace.interpret.labels import compact, pattern
from graph_metanetworks.trace.interpret.registry import rule
from graph_metanetworks.trace.interpret.value import Role, Value
from graph_metanetworks.trace.record.operation import TensorRef


@rule(
    "max_pool2d_with_indices",
    "max_pool3d_with_indices",
    "avg_pool2d",
    "avg_pool3d",
    "_adaptive_avg_pool2d",
    "_adaptive_avg_pool3d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "upsample_nearest1d",
    "upsample_nearest2d",
    "upsample_nearest3d",
    "_upsample_nearest_exact1d",
    "_upsample_nearest_exact2d",
    "upsample_linear1d",
    "upsample_bilinear2d",
    "upsample_bicubic2d",
    "upsample_trilinear3d",
    "_upsample_bilinear2d_aa",
    "_upsample_bicubic2d_aa",
)
def resample(call: Call) -> list[Value]:
    ref: TensorRef = call.get("self", "input")
    value = call.value(ref)
    spatial = 3 if "3d" in call.name else 2 if "2d" in call.name else 1
    first = ref.ndim - spatial
    for dim in value.dims[first:]:
        pin(dim, f"place in {call.name}")
    call.trace.mixes_along(value.dims, range(first, ref.ndim))
    if value.is_weight and _keeps_elements(call, ref):
        return [value]
    if value.is_weight:
        kept = [
            Value(Role.WEIGHT, [*value.dims[:first], *(fixed(n, "place") for n in out.shape[first:])])
            for out in call.outs
        ]
        for result in kept:
            result.mixed = value.parameters
        return kept

    def at_one_place(label: Tensor, out: TensorRef) -> Tensor:
        return compact(label, range(first)).expand(out.shape)

    return [
        Value(
            value.role,
            [*value.dims[:first], *(fixed(n, "place") for n in out.shape[first:])],
            labels=[at_one_place(label, out) for label in value.labels],
            origin=value.origin and value.origin.moved(lambda x, out=out: at_one_place(x, out)),
            behind=value.behind,
            pooled=value.pooled,
        )
        for out in call.outs
    ]


def _keeps_elements(call: Call, ref: TensorRef) -> bool:
    """Return whether a table is interpolated to the size that it has, which changes nothing."""
    scales = [scale for name, scale in call.arguments.items() if name.startswith("scale")]
    return "upsample" in call.name and ref.shape == call.out.shape and not any(scales)


@rule("grid_sampler_2d", "grid_sampler_3d")
def grid_sample(call: Call) -> Value:
    """Look up a grid by coordinates: a stored grid has a node for each site, with edges to its channels."""
    value, grid = call.use("input"), call.use("grid")
    unify(value.dims[0], grid.dims[0], call.name)
    for dim in [*value.dims[2:], grid.dims[-1]]:
        pin(dim, "place in a grid")
    call.trace.mixes_along(value.dims, range(2, call["input"].ndim))
    dims = [*value.dims[:2], *grid.dims[1:-1]]
    if not value.is_weight:
        kept = [
            compact(x, {0, 1})[(..., *[slice(0, 1)] * (call.out.ndim - 2))].expand(call.out.shape)
            for x in value.labels
            if not pattern(x) - {0, 1}
        ]
        behind = None if kept else wiring.nodes_behind(value, grid)
        return Value(Role.ACTIVATION, dims, labels=kept, behind=behind)
    shape = call["input"].shape
    stored = call.trace.builder.label("channel", call.path, shape, value.dims, [0, 1], 1)
    sites = Value(Role.WEIGHT, value.dims, labels=[stored])
    binding.bind(call.trace, "grid", value, sites, shape)
    places = [1] * (call.out.ndim - 2)
    out = compact(stored, {0, 1}).reshape(*shape[:2], *places).expand(call.out.shape)
    return Value(Role.ACTIVATION, dims, labels=[out])
