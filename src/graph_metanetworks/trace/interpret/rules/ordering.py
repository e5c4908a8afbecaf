"""Operations that depend on the order of a dimension, which is pinned."""

from __future__ import annotations

from torch import Tensor

from graph_metanetworks.symmetry.axes import pin
from graph_metanetworks.trace.interpret import binding, wiring
from graph_metanetworks.trace.interpret.interpreter import Call
from graph_metanetworks.trace.interpret.labels import compact, pattern, varies
from graph_metanetworks.trace.interpret.registry import rule
from graph_metanetworks.trace.interpret.value import Value


@rule("roll", "flip", "cumsum", "cumprod", "cummax", "cummin", "logcumsumexp", "tril", "triu")
def ordered(call: Call) -> list[Value]:
    value, ndim = call.value("self"), call["self"].ndim
    given = (-2, -1) if call.name in ("tril", "triu") else call.get("dims", "dim")
    given = range(ndim) if given is None or given == [] else given
    dims = [given] if isinstance(given, int) else list(given)
    for dim in dims:
        pin(value.dims[dim], call.name)
    call.trace.mixes_along(value.dims, [dim % ndim for dim in dims if ndim])
    if call.name in ("roll", "flip"):
        return [value.moved(value.dims, lambda label: _reordered(call, label))]
    if value.is_weight:
        return [value.arithmetic(value.dims) for _ in call.outs]
    kept = [x for x in value.labels if not any(varies(x, dim % ndim) for dim in dims)]
    behind = value.behind if len(kept) == len(value.labels) else wiring.nodes_behind(value)
    return [Value(value.role, value.dims, labels=kept, behind=behind) for _ in call.outs]


def _reordered(call: Call, label: Tensor) -> Tensor:
    if call.name == "roll" and not call["dims"]:  # of the flattened tensor
        return call.rerun(label)
    return call.rerun(compact(label, pattern(label))).expand(label.shape)


@rule(
    "topk",
    "sort",
    "histc",
    "nonzero",
    "unique_dim",
    "_unique2",
    "bincount",
    "searchsorted",
    "bucketize",
    "_fft_r2c",
    "_fft_c2r",
    "_fft_c2c",
    "multinomial",
)
def opaque(call: Call) -> list[Value]:
    return binding.opaque(call)
