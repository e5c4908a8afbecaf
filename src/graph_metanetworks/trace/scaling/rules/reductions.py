"""Sums, maxima and pooling: elements that are reduced together must have the same scale."""

from __future__ import annotations

from graph_metanetworks.trace.interpret.labels import compact
from graph_metanetworks.trace.interpret.registry import functional_name
from graph_metanetworks.trace.interpret.rules.reduction import at_first
from graph_metanetworks.trace.record.operation import TensorRef
from graph_metanetworks.trace.scaling.labels import Labels
from graph_metanetworks.trace.scaling.step import Step, rule


@rule("index_select")
def selected(step: Step) -> list[Labels]:
    dim = step["dim"] % len(step.shape)
    labels = step.labels("self")
    step.system.zero(step.labels("index"))
    step.system.zero(labels.along([dim]))
    kept = labels.without([dim])
    return [kept.moved(lambda label: at_first(label, {dim}).expand(step.shape))]


@rule("sum", "mean")
def summed(step: Step) -> list[Labels]:
    return [_reduced(step)]


@rule("amax", "amin", "max", "min")
def extreme(step: Step) -> list[Labels] | None:
    """Take the largest, which stays the largest if all are scaled by the same factor."""
    if step.mode == "sign" or "other" in step.operation.arguments:
        return None
    return [_reduced(step), *(Labels() for _ in step.outs[1:])]


def _reduced(step: Step) -> Labels:
    ref: TensorRef = step["self"]
    given = step.get("dim")
    listed = [given] if isinstance(given, int) else given
    dims = {d % max(1, ref.ndim) for d in listed} if listed else set(range(ref.ndim))
    labels = step.labels("self")
    step.system.zero(labels.along(dims))
    return labels.without(dims).moved(lambda label: at_first(label, dims).reshape(step.shape))


@rule("cumsum")
def accumulated(step: Step) -> list[Labels]:
    dim = step["dim"] % len(step.shape)
    labels = step.labels("self")
    step.system.zero(labels.along([dim]))
    return [labels.without([dim])]


@rule(
    "avg_pool2d",
    "avg_pool3d",
    "_adaptive_avg_pool2d",
    "_adaptive_avg_pool3d",
    "upsample_nearest1d",
    "upsample_nearest2d",
    "upsample_nearest3d",
    "upsample_linear1d",
    "upsample_bilinear2d",
    "upsample_trilinear3d",
)
def averaged(step: Step) -> list[Labels]:
    return [_per_channel(step)]


@rule("max_pool2d_with_indices", "max_pool3d_with_indices", "adaptive_max_pool2d", "adaptive_max_pool3d")
def pooled(step: Step) -> list[Labels] | None:
    return [_per_channel(step), Labels()] if step.mode == "scale" else None


def _per_channel(step: Step) -> Labels:
    """Pool or resample positions, along which scales must not vary."""
    name = functional_name(step.operation.func)
    first = len(step.shape) - next(n for n in (1, 2, 3) if f"{n}d" in name)
    labels = step.labels("self", "input")
    step.system.zero(labels.along(range(first, len(step.shape))))
    kept = labels.without(range(first, len(step.shape)))
    return Labels([compact(label, range(first)).expand(step.shape) for label in kept.tensors], labels.zero)
