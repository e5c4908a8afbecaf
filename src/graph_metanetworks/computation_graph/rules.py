"""The registry of rules: what each operation adds to a computation graph.

Sizes in comments: n rows, m columns, k what is summed over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._pytree import tree_map_only

from graph_metanetworks.computation_graph.builder import (
    FIRST_ELEMENT,
    NOTHING,
    ComputationGraphBuilder,
    element_labels,
    holds_elements,
    holds_nodes,
)
from graph_metanetworks.computation_graph.graph import IDENTITY, Pointwise
from graph_metanetworks.errors import UnsupportedOperation
from graph_metanetworks.trace.interpret.interpreter import where
from graph_metanetworks.trace.interpret.registry import functional_name
from graph_metanetworks.trace.record.operation import Operation, TensorRef, refs

Rule = Callable[["LabelledCall"], "Tensor | Sequence[Tensor]"]

RULES: dict[str, Rule] = {}

# operations that only move elements: they run on labels as they are
MOVES = frozenset(
    (
        *("view", "_unsafe_view", "reshape", "_reshape_alias", "squeeze", "unsqueeze", "expand", "repeat"),
        *("t", "transpose", "permute", "movedim", "flip", "roll", "diagonal", "unfold"),
        *("slice", "select", "index_select", "split", "split_with_sizes", "unbind", "cat", "stack"),
        *("clone", "alias", "detach"),
    )
)


ZEROS = ("zeros", "empty")  # factory functions; unwritten memory is assumed to be zeros


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register what an operation adds; an operation has one rule."""
    known = [name for name in names if name in RULES or name in MOVES]
    if known:
        raise ValueError(f"{', '.join(known)} already has a rule")

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


@dataclass(frozen=True, slots=True)
class LabelledCall:
    """One operation as its rule sees it."""

    builder: ComputationGraphBuilder
    operation: Operation
    labels: dict[int, Tensor]

    @property
    def name(self) -> str:
        return functional_name(self.operation.func).split("::")[1]

    def __getitem__(self, argument: str) -> Any:
        for position, declared in enumerate(self.operation.func._schema.arguments):
            if declared.name == argument:
                default = self.operation.kwargs.get(argument, declared.default_value)
                return self.operation.args[position] if position < len(self.operation.args) else default
        raise KeyError(argument)

    def get(self, argument: str) -> Any:
        """Return an argument that not every overload has, or None."""
        names = [declared.name for declared in self.operation.func._schema.arguments]
        return self[argument] if argument in names else None

    @property
    def shape(self) -> tuple[int, ...]:
        return refs(self.operation.outputs)[0].shape

    def label(self, argument: str) -> Tensor | None:
        """Return the label of a tensor; None for a number, a constant, or no tensor."""
        ref = self.get(argument)
        return self.labels.get(ref.key) if isinstance(ref, TensorRef) else None

    def neurons(self, label: Tensor | None) -> Tensor:
        """Check that a label holds only neurons (and zeros)."""
        if label is None or holds_elements(label):
            raise self.refuse("it takes weights or constants instead of neurons")
        return label

    def elements(self, label: Tensor | None) -> Tensor:
        """Return the parameter elements of a label, which must hold nothing else."""
        if label is None or bool((label > FIRST_ELEMENT).any()):
            raise self.refuse("it takes neurons or constants instead of weights")
        return element_labels(label)

    def layer(self, activation: Pointwise = IDENTITY) -> Tensor:
        """Make nodes for the result."""
        return self.builder.layer(self.operation.path or self.name, "hidden", self.shape, activation)

    def join(self, targets: Tensor, sources: Tensor, constant: Tensor | float = 1.0) -> None:
        self.builder.join(targets, sources, self.builder.constant(constant))

    def refuse(self, why: str = "there is no rule for it") -> UnsupportedOperation:
        return UnsupportedOperation(
            f"{self.operation.func}, called {where(self.operation)}, does not fit in a computation graph: "
            f"{why}. Computation graphs are for linear, convolution, bias, pooling (sum, mean), residual and "
            "pointwise layers. The parameter graph, gmn.trace(model, x), takes any network."
        )


def run(call: LabelledCall) -> Tensor | Sequence[Tensor]:
    """Return the label of the result, or one for each of its tensors."""
    if call.name in MOVES:
        return _moved(call)
    if call.name in RULES:
        return RULES[call.name](call)
    if torch.Tag.pointwise in call.operation.func.tags:
        return pointwise(call)
    raise call.refuse()


def _moved(call: LabelledCall) -> Tensor | Sequence[Tensor]:
    if any(ref.key not in call.labels for ref in call.operation.inputs):
        raise call.refuse("it moves neurons and constants together")
    operation = call.operation
    args, kwargs = tree_map_only(
        TensorRef, lambda ref: call.labels[ref.key], (operation.args, operation.kwargs)
    )
    return operation.func(*args, **kwargs)


# ------------------------------------------------------------------ tensors without neurons


@rule(*ZEROS, "new_empty", "new_zeros", "empty_like", "zeros_like", "zero")
def nothing(call: LabelledCall) -> Tensor:
    return torch.full(call.shape, NOTHING)


@rule("copy")
def copy(call: LabelledCall) -> Tensor:
    label = call.label("src")
    if label is None:
        raise call.refuse("it writes constants among neurons")
    return label.expand(call.shape)


@rule("_to_copy")
def converted(call: LabelledCall) -> Tensor:
    label = call.label("self")
    assert label is not None
    return label.clone()


@rule("constant_pad_nd")
def padded(call: LabelledCall) -> Tensor:
    label = call.label("self")
    if label is None or call["value"] != 0:
        raise call.refuse("it pads with something other than 0")
    return F.pad(label, call["pad"], value=NOTHING)


# ------------------------------------------------------------------ products with weights


@rule("mm", "bmm")
def matrix_product(call: LabelledCall) -> Tensor:
    return _product(call, call.label("self"), call.label("mat2"))


@rule("mv")
def matrix_vector(call: LabelledCall) -> Tensor:
    vector = call.label("vec")
    product = partial(_product, call, call.label("self"))
    return product(None if vector is None else vector[:, None], shape=(*call.shape, 1))


@rule("addmm")
def affine(call: LabelledCall) -> Tensor:
    if call["beta"] != 1 or call["alpha"] != 1:
        raise call.refuse("it scales its terms (alpha, beta)")
    out = _product(call, call.label("mat1"), call.label("mat2"))
    _add(call, out, call.label("self"))
    return out


def _product(
    call: LabelledCall, left: Tensor | None, right: Tensor | None, shape: Sequence[int] | None = None
) -> Tensor:
    """Make nodes for `[n, k] @ [k, m]`, where one factor holds neurons and the other weights."""
    if left is None or right is None:
        raise call.refuse("a factor is a constant")
    neurons, weights = left[..., :, None, :], right.transpose(-1, -2)[..., None, :, :]  # [n, 1, k], [1, m, k]
    if holds_nodes(weights):
        neurons, weights = weights, neurons
    elements = call.elements(weights)
    out = call.layer()
    call.builder.join(out.view(*(shape or call.shape), 1), call.neurons(neurons), elements)
    return out


@rule("convolution")
def convolution(call: LabelledCall) -> Tensor:
    if call["transposed"]:
        raise call.refuse("transposed convolutions are not among its layers")
    neurons, weights = call.neurons(call.label("input")), call.elements(call.label("weight"))
    bias = None if call["bias"] is None else call.elements(call.label("bias"))
    groups, dims = call["groups"], weights.dim() - 2
    seen = windows(neurons, weights.shape[2:], call["stride"], call["padding"], call["dilation"])
    # neurons and weights as [batch, group, channel out, *place, channel in, *tap]
    seen = seen.unflatten(1, (groups, 1, -1)).movedim(3, 3 + dims)
    taps = weights.unflatten(0, (1, groups, -1))
    taps = taps.view(*taps.shape[:3], *[1] * dims, *taps.shape[3:])
    out = call.layer()
    targets = out.unflatten(1, (groups, -1)).view(*seen.shape[:2], -1, *call.shape[2:], *[1] * (dims + 1))
    call.builder.join(targets, seen, taps)
    if bias is not None:
        call.builder.add_bias(out, bias.view(-1, *[1] * dims))
    return out


def windows(
    label: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> Tensor:
    """Return what a kernel sees at each position. [..., *size] -> [..., *place, *tap]"""
    first = label.dim() - len(kernel)
    label = F.pad(label, [side for pad in reversed(padding) for side in (pad, pad)], value=NOTHING)
    for size, step, apart in zip(kernel, stride, dilation, strict=True):
        places = torch.arange(0, label.shape[first] - apart * (size - 1), step)
        label = label.movedim(first, -1)[..., places[:, None] + apart * torch.arange(size)]
    last = label.dim()  # place and tap of each dimension in turn are now at the end
    return label.permute(*range(first), *range(first, last, 2), *range(first + 1, last, 2))


# ------------------------------------------------------------------ sums


@rule("add", "sub")
def added(call: LabelledCall) -> Tensor:
    """Add neurons to neurons (a residual), or a bias to neurons."""
    if not isinstance(call["other"], TensorRef):
        return pointwise(call)
    sign = call["alpha"] * (1 if call.name == "add" else -1)
    out = call.layer()
    _add(call, out, call.label("self"))
    _add(call, out, call.label("other"), sign)
    return out


def _add(call: LabelledCall, out: Tensor, term: Tensor | None, sign: float = 1) -> None:
    """Add one more term to the sums of some nodes: neurons, or a parameter as their bias."""
    if term is None or (holds_elements(term) and sign != 1):
        raise call.refuse("only neurons can be added, and parameters as a bias")
    if holds_elements(term):
        call.builder.add_bias(out, call.elements(term))
        return
    call.join(out, term, sign)


@rule("mul", "div")
def scaled(call: LabelledCall) -> Tensor:
    """Multiply neurons by a constant, or each by its own weight."""
    first, second, other = call.label("self"), call.label("other"), call["other"]
    if call.name == "mul" and first is not None and second is not None:
        neurons, weights = (first, second) if holds_nodes(first) else (second, first)
        elements = call.elements(weights)
        out = call.layer()
        call.builder.join(out, call.neurons(neurons), elements)
        return out
    if second is not None:
        raise call.refuse("it does not multiply neurons with weights or constants")
    factor = torch.as_tensor(other.value if isinstance(other, TensorRef) else other, dtype=torch.float64)
    neurons, out = call.neurons(first), call.layer()
    call.join(out, neurons, factor if call.name == "mul" else 1 / factor)
    return out


@rule("neg")
def negated(call: LabelledCall) -> Tensor:
    neurons, out = call.neurons(call.label("self")), call.layer()
    call.join(out, neurons, -1)
    return out


@rule("sum", "mean")
def pooled(call: LabelledCall) -> Tensor:
    label = call.neurons(call.label("self"))
    dims = call.get("dim") or list(range(label.dim()))
    dims = sorted(dim % label.dim() for dim in dims)
    kept = [dim for dim in range(label.dim()) if dim not in dims]
    summed = label.permute(*kept, *dims).flatten(len(kept)) if dims else label[..., None]
    out = call.layer()
    targets = out.reshape(*summed.shape[:-1], 1)
    call.join(targets, summed, 1 if call.name == "sum" else 1 / summed.shape[-1])
    return out


@rule("avg_pool2d", "avg_pool3d")
def average_pooled(call: LabelledCall) -> Tensor:
    label, dims = call.neurons(call.label("self")), 2 if call.name == "avg_pool2d" else 3
    kernel, stride, padding = (_each(call[key], dims) for key in ("kernel_size", "stride", "padding"))
    if call["ceil_mode"] or (any(padding) and not call["count_include_pad"]):
        raise call.refuse("it divides by different numbers at the border")
    seen = windows(label, kernel, stride or kernel, padding, [1] * dims).flatten(-dims)
    out = call.layer()
    call.join(out[..., None], seen, 1 / (call["divisor_override"] or seen.shape[-1]))
    return out


def _each(value: Sequence[int], dims: int) -> list[int]:
    return list(value) * dims if len(value) == 1 else list(value)


# ------------------------------------------------------------------ nonlinearities


def pointwise(call: LabelledCall) -> Tensor:
    """Apply a nonlinearity to one tensor."""
    label = call.neurons(call.label("self"))
    if len(call.operation.inputs) > 1:
        raise call.refuse("it combines tensors in a way that is neither a sum nor a product with weights")
    packet = getattr(torch.ops.aten, call.name)
    function = getattr(packet, call.operation.func._overloadname)
    rest = tuple(call.operation.args[1:])
    activation = Pointwise(call.name, function, rest, tuple(sorted(call.operation.kwargs.items())))
    if bool((label == NOTHING).any()) and float(activation(torch.zeros(()))) != 0:
        raise call.refuse("it maps zeros without a neuron (padding) to something else")
    out = call.layer(activation)
    call.join(out, label)
    return torch.where(label == NOTHING, NOTHING, out)
