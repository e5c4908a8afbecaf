"""Matrix products, convolutions and lookups: scales that are summed over must cancel."""

from __future__ import annotations

from torch import Tensor

from graph_metanetworks.trace.interpret.labels import canonical, compact, lay_along, pattern
from graph_metanetworks.trace.record.operation import TensorRef
from graph_metanetworks.trace.scaling.labels import Labels
from graph_metanetworks.trace.scaling.rules.norms import plus
from graph_metanetworks.trace.scaling.step import Step, rule


@rule("mm", "bmm")
def matrix_product(step: Step) -> list[Labels]:
    return [_contracted(step, step["self"], step["mat2"])]


@rule("addmm", "baddbmm")
def matrix_productplus(step: Step) -> list[Labels] | None:
    result = _contracted(step, step.get("mat1", "batch1"), step.get("mat2", "batch2"))
    step.system.equal(result, step.labels("self").expand(step.shape))
    return [result]


def _contracted(step: Step, left: TensorRef, right: TensorRef) -> Labels:
    """Multiply x [b, n, k] by w [b, k, m]: scales along k must cancel, the others pass on."""
    first, second = step.value(left), step.value(right)
    rows, columns = left.ndim - 2, left.ndim - 1  # of the result; `columns` is k in x, and `rows` is k in w
    for labels, contracted, other in ((first, columns, rows), (second, rows, columns)):
        for label in labels.tensors:
            if {contracted, other} <= pattern(
                label
            ):  # varies along rows or columns too: no product of scales
                step.system.zero(Labels([label]))
    inner = [label[..., :1, :] for label in _only(first, columns, rows)]  # [b, 1, k]
    inner += [label[..., :1].transpose(-1, -2) for label in _only(second, rows, columns)]
    step.system.product_is_one(Labels(inner))
    kept = [label[..., :1].expand(step.shape) for label in first.without([columns]).tensors]
    kept += [label[..., :1, :].expand(step.shape) for label in second.without([rows]).tensors]
    return Labels([canonical(label) for label in kept], first.zero or second.zero)


def _only(labels: Labels, along: int, never: int) -> list[Tensor]:
    return [x for x in labels.tensors if along in pattern(x) and never not in pattern(x)]


@rule("convolution")
def convolution(step: Step) -> list[Labels] | None:
    groups, transposed = step["groups"], step["transposed"]
    if transposed and groups > 1:
        return None
    x, w = (_without_places(step, step.labels(name)) for name in ("input", "weight"))
    inward, outward = (0, 1) if transposed else (1, 0)
    channels, taken, given = _vectors(x, 1), _vectors(w, inward), _vectors(w, outward)
    if groups == 1:
        step.system.product_is_one(Labels(channels + taken))
    elif step["weight"].shape[1] == 1:  # depthwise
        repeats = step.shape[1] // groups
        given = given + [vector.repeat_interleave(repeats) for vector in channels]
    else:  # the weight of each group would have to compensate the scales of its own channels
        step.system.zero(Labels(channels + taken))
    result = [lay_along(vector, 1, len(step.shape)).expand(step.shape) for vector in given]
    result += [compact(label, {0}).expand(step.shape) for label in x.without([1]).tensors]
    return [plus(step, Labels(result, x.zero or w.zero), step["bias"], first=1)]


def _without_places(step: Step, labels: Labels) -> Labels:
    """Keep labels of channels only: positions are mixed, and batch and channel must not vary together."""
    mixed = [x for x in labels.tensors if pattern(x) - {0, 1} or {0, 1} <= pattern(x)]
    step.system.zero(Labels(mixed))
    return Labels([x for x in labels.tensors if all(x is not m for m in mixed)], labels.zero)


def _vectors(labels: Labels, dim: int) -> list[Tensor]:
    return [compact(label, {dim}).reshape(-1) for label in labels.along([dim]).tensors]


@rule("embedding")
def embedding(step: Step) -> list[Labels]:
    table = step.labels("weight")
    step.system.zero(step.labels("indices"))
    step.system.zero(table.along([0]))
    last = len(step.shape) - 1
    return [
        Labels([lay_along(v, last, last + 1).expand(step.shape) for v in _vectors(table.without([0]), 1)])
    ]
