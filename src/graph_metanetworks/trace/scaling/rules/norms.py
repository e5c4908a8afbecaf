"""Norms take unscaled numbers; their own scale and shift may scale the result."""

from __future__ import annotations

from graph_metanetworks.trace.record.operation import TensorRef
from graph_metanetworks.trace.scaling.labels import Labels
from graph_metanetworks.trace.scaling.step import Step, rule


@rule(
    "native_layer_norm",
    "native_group_norm",
    "native_batch_norm",
    "_native_batch_norm_legit",
    "_native_batch_norm_legit_no_training",
)
def norm(step: Step) -> list[Labels]:
    """Demand unscaled inputs of a norm; its own scale and shift may scale the result."""
    first = first_normalized(step)
    for name in ("input", "running_mean", "running_var"):
        if step.get(name) is not None:
            step.system.zero(step.labels(name))
    weight: TensorRef | None = step["weight"]
    result = Labels() if weight is None else laid(step.value(weight), weight, step.shape, first)
    return [plus(step, result, step["bias"], first), *(Labels() for _ in step.outs[1:])]


def first_normalized(step: Step) -> int:
    """Return the dimension at which the norm's own scale and shift start."""
    shape = step.get("normalized_shape")
    return 1 if shape is None else len(step.shape) - len(shape)


def plus(step: Step, result: Labels, bias: TensorRef | None, first: int) -> Labels:
    """Return the result after adding a tensor whose dimensions start at `first`."""
    if bias is not None:
        step.system.equal(result, laid(step.value(bias), bias, step.shape, first))
    return result


def laid(labels: Labels, ref: TensorRef, shape: tuple[int, ...], first: int) -> Labels:
    """Return the labels of a tensor whose dimensions start at `first` of the given shape."""
    after = [1] * (len(shape) - first - ref.ndim)
    return labels.moved(lambda label: label.reshape(*ref.shape, *after).expand(shape))
