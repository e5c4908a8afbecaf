"""How operations treat scales. What is not here takes unscaled numbers only.

A rule returns the labels of its results, or None to say that it does not apply.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, isinf
from typing import Any

import torch
from torch import Tensor

from graph_metanetworks.trace.labels import canonical, compact, lay_along, pattern
from graph_metanetworks.trace.registry import functional_name
from graph_metanetworks.trace.rules.reduction import at_first
from graph_metanetworks.trace.scaling.labels import Labels, System
from graph_metanetworks.trace.tape import Operation, TensorRef, refs

Rule = Callable[["Step"], "list[Labels] | None"]
RULES: dict[str, Rule] = {}


@dataclass(frozen=True, eq=False)
class Step:
    """One operation as its rule sees it. `mode` is "scale" for positive scales, "sign" for signs."""

    operation: Operation
    system: System
    mode: str
    value: Callable[[TensorRef], Labels]

    def __getitem__(self, argument: str) -> Any:
        return self.operation.arguments[argument]

    def get(self, *arguments: str) -> Any:
        known = self.operation.arguments
        return next((known[name] for name in arguments if name in known), None)

    def labels(self, *arguments: str) -> Labels:
        return self.value(self.get(*arguments))

    @property
    def outs(self) -> list[TensorRef]:
        return refs(self.operation.outputs)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.outs[0].shape


def rule(*names: str) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


def find(operation: Operation) -> Rule | None:
    empty = any(0 in ref.shape for ref in operation.inputs)
    if empty or not isinstance(operation.func, torch._ops.OpOverload):
        return None
    namespace, name = functional_name(operation.func).split("::")
    return RULES.get(name) if namespace == "aten" else None


# ------------------------------------------------------------------ elements that only move


@rule("view", "_unsafe_view", "reshape", "_reshape_alias")
def reshaped(step: Step) -> list[Labels]:
    return [step.labels("self").moved(lambda label: label.reshape(step.shape))]


@rule(
    "permute",
    "transpose",
    "t",
    "expand",
    "squeeze",
    "unsqueeze",
    "slice",
    "select",
    "flip",
    "repeat",
    "roll",
    "unbind",
    "split",
    "split_with_sizes",
    "chunk",
)
def moved(step: Step) -> list[Labels]:
    labels = step.labels("self")
    results = [_again(step, label) for label in labels.tensors]
    return [
        Labels([canonical(own[index]) for own in results], labels.zero) for index in range(len(step.outs))
    ]


def _again(step: Step, label: Tensor) -> list[Tensor]:
    """The operation itself, on a label instead of the tensor."""
    schema = step.operation.func._schema.arguments
    given = step.operation.arguments | {"self": label}
    result = step.operation.func(*(given[a.name] for a in schema if not a.kwarg_only))
    return [result] if isinstance(result, Tensor) else list(result)


@rule("cat", "stack")
def joined(step: Step) -> list[Labels]:
    """Side by side, the first labels of each with the first of the others."""
    given = [step.value(ref) for ref in step["tensors"]]
    count = max(len(labels.tensors) for labels in given)
    join = torch.cat if functional_name(step.operation.func) == "aten::cat" else torch.stack
    nothing, columns = torch.zeros((), dtype=torch.int64), []
    for index in range(count):
        parts = [
            labels.tensors[index] if index < len(labels.tensors) else nothing.expand(ref.shape)
            for labels, ref in zip(given, step["tensors"], strict=True)
        ]
        columns.append(canonical(join(parts, step["dim"])))
    return [Labels(columns, all(labels.zero for labels in given))]


@rule("constant_pad_nd")
def padded(step: Step) -> list[Labels] | None:
    """Zeros have any scale, so that padded places take that of their channel."""
    if step["value"] != 0:
        return None
    labels, grown = step.labels("self"), range(len(step.shape) - len(step["pad"]) // 2, len(step.shape))
    step.system.zero(labels.along(grown))
    kept = labels.without(grown)
    return [
        Labels([compact(label, pattern(label)).expand(step.shape) for label in kept.tensors], labels.zero)
    ]


# ------------------------------------------------------------------ elementwise


@rule("neg", "clone", "alias", "detach", "contiguous", "_to_copy", "lift_fresh", "positive")
def linear(step: Step) -> list[Labels] | None:
    rounds = not (step.outs[0].dtype.is_floating_point or step.outs[0].dtype.is_complex)
    return None if rounds else [step.labels("self")]


@rule("relu", "leaky_relu")
def homogeneous(step: Step) -> list[Labels] | None:
    return [step.labels("self")] if step.mode == "scale" else None


@rule(
    "tanh", "sin", "tan", "sinh", "asin", "asinh", "atan", "atanh", "erf", "hardshrink", "softshrink", "sign"
)
def odd(step: Step) -> list[Labels] | None:
    return [step.labels("self")] if step.mode == "sign" else None


@rule("cos", "cosh")
def even(step: Step) -> list[Labels] | None:
    return [Labels()] if step.mode == "sign" else None


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
    """The larger of two is chosen alike if both are scaled alike."""
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
    """The labels of an operand, laid out like the result; a number has none."""
    given = step[name]
    if not isinstance(given, TensorRef):
        return Labels(zero=given == 0)
    return step.value(given).expand(step.shape)


# ------------------------------------------------------------------ sums


@rule("mm", "bmm")
def matrix_product(step: Step) -> list[Labels]:
    return [_contracted(step, step["self"], step["mat2"])]


@rule("addmm", "baddbmm")
def matrix_product_plus(step: Step) -> list[Labels] | None:
    result = _contracted(step, step.get("mat1", "batch1"), step.get("mat2", "batch2"))
    step.system.equal(result, step.labels("self").expand(step.shape))
    return [result]


def _contracted(step: Step, left: TensorRef, right: TensorRef) -> Labels:
    """x [b, n, k] times w [b, k, m]: along k the scales must cancel, the others pass on."""
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
    elif step["weight"].shape[1] == 1:  # every channel on its own
        repeats = step.shape[1] // groups
        given = given + [vector.repeat_interleave(repeats) for vector in channels]
    else:  # a weight for each group would have to make up for the scales of its own channels
        step.system.zero(Labels(channels + taken))
    result = [lay_along(vector, 1, len(step.shape)).expand(step.shape) for vector in given]
    result += [compact(label, {0}).expand(step.shape) for label in x.without([1]).tensors]
    return [_plus(step, Labels(result, x.zero or w.zero), step["bias"], first=1)]


def _without_places(step: Step, labels: Labels) -> Labels:
    """Labels of channels only: places are mixed, and batch and channel must not vary together."""
    mixed = [x for x in labels.tensors if pattern(x) - {0, 1} or {0, 1} <= pattern(x)]
    step.system.zero(Labels(mixed))
    return Labels([x for x in labels.tensors if all(x is not m for m in mixed)], labels.zero)


def _vectors(labels: Labels, dim: int) -> list[Tensor]:
    return [compact(label, {dim}).reshape(-1) for label in labels.along([dim]).tensors]


def _plus(step: Step, result: Labels, bias: TensorRef | None, first: int) -> Labels:
    """The result after adding a tensor whose dimensions start at `first`."""
    if bias is not None:
        step.system.equal(result, _laid(step.value(bias), bias, step.shape, first))
    return result


def _laid(labels: Labels, ref: TensorRef, shape: tuple[int, ...], first: int) -> Labels:
    after = [1] * (len(shape) - first - ref.ndim)
    return labels.moved(lambda label: label.reshape(*ref.shape, *after).expand(shape))


@rule("embedding")
def embedding(step: Step) -> list[Labels]:
    table = step.labels("weight")
    step.system.zero(step.labels("indices"))
    step.system.zero(table.along([0]))
    last = len(step.shape) - 1
    return [
        Labels([lay_along(v, last, last + 1).expand(step.shape) for v in _vectors(table.without([0]), 1)])
    ]


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
    """The largest stays the largest if all are scaled alike."""
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
    """What pools or resamples places: scales must not vary along them."""
    name = functional_name(step.operation.func)
    first = len(step.shape) - next(n for n in (1, 2, 3) if f"{n}d" in name)
    labels = step.labels("self", "input")
    step.system.zero(labels.along(range(first, len(step.shape))))
    kept = labels.without(range(first, len(step.shape)))
    return Labels([compact(label, range(first)).expand(step.shape) for label in kept.tensors], labels.zero)


# ------------------------------------------------------------------ norms


@rule("native_layer_norm")
def layer_norm(step: Step) -> list[Labels]:
    return _normalized(step, len(step.shape) - len(step["normalized_shape"]))


@rule(
    "native_group_norm",
    "native_batch_norm",
    "_native_batch_norm_legit",
    "_native_batch_norm_legit_no_training",
)
def channel_norm(step: Step) -> list[Labels]:
    return _normalized(step, 1)


def _normalized(step: Step, first: int) -> list[Labels]:
    """A norm takes unscaled numbers; its own scale and shift may scale what comes out."""
    for name in ("input", "running_mean", "running_var"):
        if step.get(name) is not None:
            step.system.zero(step.labels(name))
    weight: TensorRef | None = step["weight"]
    result = Labels() if weight is None else _laid(step.value(weight), weight, step.shape, first)
    return [_plus(step, result, step["bias"], first), *(Labels() for _ in step.outs[1:])]
