"""Functions of single elements, products and sums of two tensors."""

from __future__ import annotations

from math import inf, isinf

import torch

from graph_metanetworks.trace.interpret.labels import compact, pattern
from graph_metanetworks.trace.interpret.registry import functional_name
from graph_metanetworks.trace.record.operation import TensorRef
from graph_metanetworks.trace.scaling.labels import Labels
from graph_metanetworks.trace.scaling.step import Step, rule


@rule("neg", "clone", "alias", "detach", "contiguous", "_to_copy", "lift_fresh", "positive")
def linear(step: Step) -> list[Labels] | None:
    rounds = not (step.outs[0].dtype.is_floating_point or step.outs[0].dtype.is_complex)
    return None if rounds else [step.labels("self")]


@rule("relu", "leaky_relu")
def homogeneous(step: Step) -> list[Labels] | None:
    return [step.labels("self")] if step.mode == "scale" else None


@rule("tanh", "tan", "sinh", "asin", "asinh", "atan", "atanh", "erf", "hardshrink", "softshrink", "sign")
def odd(step: Step) -> list[Labels] | None:
    return [step.labels("self")] if step.mode == "sign" else None


@rule("cosh")
def even(step: Step) -> list[Labels] | None:
    return [Labels()] if step.mode == "sign" else None


@rule("sin")
def sine(step: Step) -> list[Labels] | None:
    """Take the sine: odd, and an odd multiple of pi in its argument changes its sign too."""
    return [_flipped(step, step.labels("self"))] if step.mode == "sign" else None


@rule("cos")
def cosine(step: Step) -> list[Labels] | None:
    return [_flipped(step, Labels())] if step.mode == "sign" else None


def _flipped(step: Step, labels: Labels) -> Labels:
    """Return the signs of a result that changes with the parity of its phase too.

    Both go into one unknown, because they may cancel: sin(pi - x) = sin(x).
    """
    if not step.parity.tensors:
        return labels
    (parity,) = step.parity.tensors
    together = [label for label in labels.tensors if pattern(label) & pattern(parity)]
    keep = set().union(*map(pattern, [parity, *together]))
    shape = torch.broadcast_shapes(*(compact(label, keep).shape for label in [parity, *together]))
    result = step.system.fresh(shape.numel()).view(shape).expand(step.shape)
    step.system.product_is_one(Labels([result, parity, *together]))
    others = [label for label in labels.tensors if not any(label is x for x in together)]
    return Labels([result, *others], labels.zero)


@rule("abs")
def absolute(step: Step) -> list[Labels]:
    return [step.labels("self") if step.mode == "scale" else Labels()]


@rule("pow")
def power(step: Step) -> list[Labels] | None:
    exponent = step["exponent"]
    whole = isinstance(exponent, int | float) and float(exponent).is_integer() and exponent > 0
    if not whole or not isinstance(step["self"], TensorRef):
        return None
    labels = step.labels("self")
    return [Labels(labels.tensors * int(exponent), labels.zero)] if exponent <= 4 else None


@rule("clamp", "clamp_min", "clamp_max", "hardtanh")
def clamped(step: Step) -> list[Labels] | None:
    low, high = step.get("min", "min_val"), step.get("max", "max_val")
    low, high = -inf if low is None else low, inf if high is None else high
    if isinstance(low, TensorRef) or isinstance(high, TensorRef):
        return None
    kept = low == -high if step.mode == "sign" else all(bound == 0 or isinf(bound) for bound in (low, high))
    return [step.labels("self")] if kept else None


@rule("threshold")
def threshold(step: Step) -> list[Labels] | None:
    kept = step.mode == "scale" and step["threshold"] == 0 and step["value"] == 0
    return [step.labels("self")] if kept else None


@rule("_prelu_kernel")
def prelu(step: Step) -> list[Labels] | None:
    if step.mode == "sign":
        return None
    step.system.zero(step.labels("weight"))
    return [step.labels("self")]


@rule("mul", "div")
def product(step: Step) -> list[Labels] | None:
    if step.get("rounding_mode"):
        return None
    first, second = (_operand(step, name) for name in ("self", "other"))
    if functional_name(step.operation.func) == "aten::div":
        if second.zero:
            return None
        second = second.inverse()
    return [first.times(second)]


@rule("add", "sub")
def total(step: Step) -> list[Labels] | None:
    first, second = (_operand(step, name) for name in ("self", "other"))
    numbers = [step[name] for name in ("self", "other") if not isinstance(step[name], TensorRef)]
    if any(numbers):  # a number that is not zero
        return None
    step.system.equal(first, second)
    return [second if first.zero else first]


@rule("maximum", "minimum")
def larger(step: Step) -> list[Labels] | None:
    """Choose the larger of two, which commutes with a common positive scale."""
    return total(step) if step.mode == "scale" else None


@rule("where")
def chosen(step: Step) -> list[Labels]:
    step.system.zero(step.labels("condition"))
    return total(step)  # type: ignore[return-value]  # "self" and "other" are tensors here


@rule("masked_fill")
def masked(step: Step) -> list[Labels] | None:
    value = step["value"]
    if isinstance(value, TensorRef) or not (value == 0 or (step.mode == "scale" and isinf(value))):
        return None
    step.system.zero(step.labels("mask"))
    return [step.labels("self").expand(step.shape)]


@rule("native_dropout")
def dropped(step: Step) -> list[Labels]:
    return [step.labels("input"), Labels()]


def _operand(step: Step, name: str) -> Labels:
    """Return the labels of an operand, laid out like the result; a number has none."""
    given = step[name]
    if not isinstance(given, TensorRef):
        return Labels(zero=given == 0)
    return step.value(given).expand(step.shape)
