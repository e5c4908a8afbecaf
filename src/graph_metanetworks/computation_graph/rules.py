"""What each operation adds to a computation graph: one short rule each, in one registry.

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
    NOTHING,
    Builder,
    element_labels,
    holds_elements,
    holds_nodes,
)
from graph_metanetworks.computation_graph.graph import IDENTITY, Pointwise
from graph_metanetworks.errors import UnsupportedOperation
from graph_metanetworks.trace.interpreter import where
from graph_metanetworks.trace.registry import functional_name
from graph_metanetworks.trace.tape import Operation, TensorRef, refs

Rule = Callable[["Call"], "Tensor | Sequence[Tensor]"]

RULES: dict[str, Rule] = {}

# operations that only move elements: they run on labels as they are
MOVES = frozenset(
    (
        *("view", "_unsafe_view", "reshape", "_reshape_alias", "squeeze", "unsqueeze", "expand", "repeat"),
        *(
            "t",
            "transpose",
            "permute",
            "movedim",
            "flip",
            "roll",
            "slice",
            "select",
            "index_select",
            "unfold",
        ),
        *("cat", "stack", "split", "split_with_sizes", "unbind", "diagonal", "clone", "alias", "detach"),
    )
)


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Say what an operation adds; an operation has one rule."""
    known = [name for name in names if name in RULES or name in MOVES]
    if known:
        raise ValueError(f"{', '.join(known)} already has a rule")

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


@dataclass(frozen=True, slots=True)
class Call:
    """One operation as its rule sees it."""

    builder: Builder
    operation: Operation
    labels: dict[int, Tensor]

    @property
    def name(self) -> str:
        return functional_name(self.operation.func).split("::")[1]

    def __getitem__(self, argument: str) -> Any:
        schema = self.operation.func._schema.arguments
        for position, declared in enumerate(schema):
            if declared.name == argument:
                default = self.operation.kwargs.get(argument, declared.default_value)
                return self.operation.args[position] if position < len(self.operation.args) else default
        raise KeyError(argument)

    @property
    def shape(self) -> tuple[int, ...]:
        return refs(self.operation.outputs)[0].shape

    def label(self, argument: str | TensorRef) -> Tensor | None:
        """The label of a tensor; None for a number, a constant, or no tensor."""
        ref = self[argument] if isinstance(argument, str) else argument
        return self.labels.get(ref.key) if isinstance(ref, TensorRef) else None

    def layer(self, activation: Pointwise = IDENTITY) -> Tensor:
        """New nodes for the result."""
        return self.builder.layer(self.operation.path or self.name, "hidden", self.shape, activation)

    def join(self, targets: Tensor, sources: Tensor, constant: Tensor | float = 1.0) -> None:
        self.builder.join(targets, sources, self.builder.constant(constant))

    def refuse(self, why: str = "there is no rule for it") -> UnsupportedOperation:
        return UnsupportedOperation(
            f"{self.operation.func}, called {where(self.operation)}, has no place in a computation graph: "
            f"{why}. Computation graphs are for linear, convolution, bias, pooling (sum, mean), residual and "
            "pointwise layers. The parameter graph, gmn.trace(model, x), takes any network."
        )


def run(call: Call) -> Tensor | Sequence[Tensor]:
    """The label of the result, or one for each tensor of it."""
    if call.name in MOVES:
        return _moved(call)
    if call.name in RULES:
        return RULES[call.name](call)
    if torch.Tag.pointwise in call.operation.func.tags:
        return pointwise(call)
    raise call.refuse()


def _moved(call: Call) -> Tensor | Sequence[Tensor]:
    if any(ref.key not in call.labels for ref in call.operation.inputs):
        raise call.refuse("it moves neurons and constants together")
    operation = call.operation
    args, kwargs = tree_map_only(
        TensorRef, lambda ref: call.labels[ref.key], (operation.args, operation.kwargs)
    )
    return operation.func(*args, **kwargs)


# ------------------------------------------------------------------ tensors without neurons


@rule("empty", "zeros", "new_empty", "new_zeros", "empty_like", "zeros_like", "zero", "full", "fill")
def nothing(call: Call) -> Tensor:
    if call.name in ("full", "fill") and call["fill_value" if call.name == "full" else "value"] != 0:
        raise call.refuse("only zeros stand for no neuron")
    return torch.full(call.shape, NOTHING)


@rule("copy")
def copy(call: Call) -> Tensor:
    label = call.label("src")
    if label is None:
        raise call.refuse("it writes constants among neurons")
    return label.expand(call.shape)


@rule("_to_copy")
def converted(call: Call) -> Tensor:
    label = call.label("self")
    assert label is not None
    return label.clone()


@rule("constant_pad_nd")
def padded(call: Call) -> Tensor:
    label = call.label("self")
    if label is None or call["value"] != 0:
        raise call.refuse("it pads with something other than 0")
    return F.pad(label, call["pad"], value=NOTHING)


# ------------------------------------------------------------------ products with weights


@rule("mm", "bmm")
def matrix_product(call: Call) -> Tensor:
    return _product(call, call.label("self"), call.label("mat2"))


@rule("mv")
def matrix_vector(call: Call) -> Tensor:
    vector = call.label("vec")
    product = partial(_product, call, call.label("self"))
    return product(None if vector is None else vector[:, None], shape=(*call.shape, 1))


@rule("addmm")
def affine(call: Call) -> Tensor:
    if call["beta"] != 1 or call["alpha"] != 1:
        raise call.refuse("it scales its terms (alpha, beta)")
    out = _product(call, call.label("mat1"), call.label("mat2"))
    _add(call, out, call.label("self"))
    return out


def _product(
    call: Call, left: Tensor | None, right: Tensor | None, shape: Sequence[int] | None = None
) -> Tensor:
    """Nodes for `[n, k] @ [k, m]`, of which one factor is made of neurons and the other of weights."""
    if left is None or right is None:
        raise call.refuse("a factor is a constant")
    pairs = (left[..., :, None, :], right.transpose(-1, -2)[..., None, :, :])  # [n, 1, k], [1, m, k]
    neurons = [part for part in pairs if holds_nodes(part) and not holds_elements(part)]
    weights = [part for part in pairs if holds_elements(part) and not holds_nodes(part)]
    if len(neurons) != 1 or len(weights) != 1:
        raise call.refuse("it does not multiply neurons with weights")
    out = call.layer()
    targets = out.view(*(shape or call.shape), 1)
    call.builder.join(targets, neurons[0], element_labels(weights[0]))
    return out


@rule("convolution")
def convolution(call: Call) -> Tensor:
    neurons, weights, bias = call.label("input"), call.label("weight"), call.label("bias")
    if call["transposed"]:
        raise call.refuse("transposed convolutions are not among its layers")
    if neurons is None or weights is None or not holds_nodes(neurons) or not holds_elements(weights):
        raise call.refuse("it does not multiply neurons with weights")
    groups, dims = call["groups"], weights.dim() - 2
    seen = windows(neurons, weights.shape[2:], call["stride"], call["padding"], call["dilation"])
    # neurons and weights as [batch, group, channel out, *place, channel in, *tap]
    seen = seen.unflatten(1, (groups, 1, -1)).movedim(3, 3 + dims)
    taps = weights.unflatten(0, (1, groups, -1))
    taps = taps.view(*taps.shape[:3], *[1] * dims, *taps.shape[3:])
    out = call.layer()
    targets = out.unflatten(1, (groups, -1)).view(*seen.shape[:2], -1, *call.shape[2:], *[1] * (dims + 1))
    call.builder.join(targets, seen, element_labels(taps))
    if bias is not None:
        call.builder.add_bias(out, element_labels(bias).view(-1, *[1] * dims))
    return out


def windows(
    label: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> Tensor:
    """What a kernel sees at each place. [..., *size] -> [..., *place, *tap]"""
    first = label.dim() - len(kernel)
    label = F.pad(label, [side for pad in reversed(padding) for side in (pad, pad)], value=NOTHING)
    for size, step, apart in zip(kernel, stride, dilation, strict=True):
        places = torch.arange(0, label.shape[first] - apart * (size - 1), step)
        label = label.movedim(first, -1)[..., places[:, None] + apart * torch.arange(size)]
    last = label.dim()  # place and tap of each dimension in turn are now at the end
    return label.permute(*range(first), *range(first, last, 2), *range(first + 1, last, 2))


# ------------------------------------------------------------------ sums


@rule("add", "sub")
def added(call: Call) -> Tensor:
    """Neurons plus neurons (a residual), or plus a bias."""
    if not isinstance(call["other"], TensorRef):
        return pointwise(call)
    sign = call["alpha"] * (1 if call.name == "add" else -1)
    out = call.layer()
    _add(call, out, call.label("self"))
    _add(call, out, call.label("other"), sign)
    return out


def _add(call: Call, out: Tensor, term: Tensor | None, sign: float = 1) -> None:
    """One more term in the sums of some nodes: neurons, or a parameter as their bias."""
    if term is None or (holds_elements(term) and (holds_nodes(term) or sign != 1)):
        raise call.refuse("only neurons can be added, and parameters as a bias")
    if holds_elements(term):
        call.builder.add_bias(out, element_labels(term))
        return
    call.join(out, term, sign)


@rule("mul", "div")
def scaled(call: Call) -> Tensor:
    """Neurons times a constant, or each times a weight of its own."""
    first, second = call.label("self"), call.label("other")
    if call.name == "mul" and second is not None and holds_elements(second) and first is not None:
        out = call.layer()
        call.builder.join(out, first, element_labels(second))
        return out
    if second is not None or first is None:
        raise call.refuse("it does not multiply neurons with weights or constants")
    other = call["other"]
    factor = (
        other.value.double() if isinstance(other, TensorRef) else torch.tensor(other, dtype=torch.float64)
    )
    out = call.layer()
    call.join(out, first, factor if call.name == "mul" else 1 / factor)
    return out


@rule("neg")
def negated(call: Call) -> Tensor:
    out = call.layer()
    call.join(out, _neurons(call), -1)
    return out


@rule("sum", "mean")
def pooled(call: Call) -> Tensor:
    label = _neurons(call)
    dims = _argument(call, "dim") or list(range(label.dim()))
    dims = sorted(dim % label.dim() for dim in dims)
    kept = [dim for dim in range(label.dim()) if dim not in dims]
    summed = label.permute(*kept, *dims).flatten(len(kept)) if dims else label[..., None]
    out = call.layer()
    targets = out.reshape(*summed.shape[:-1], 1)
    call.join(targets, summed, 1 if call.name == "sum" else 1 / summed.shape[-1])
    return out


@rule("avg_pool2d", "avg_pool3d")
def average_pooled(call: Call) -> Tensor:
    label, dims = _neurons(call), 2 if call.name == "avg_pool2d" else 3
    kernel, stride, padding = (_each(call[key], dims) for key in ("kernel_size", "stride", "padding"))
    if call["ceil_mode"] or (any(padding) and not call["count_include_pad"]):
        raise call.refuse("it divides by different numbers at the border")
    seen = windows(label, kernel, stride or kernel, padding, [1] * dims).flatten(-dims)
    out = call.layer()
    call.join(out[..., None], seen, 1 / (call["divisor_override"] or seen.shape[-1]))
    return out


def _each(value: Sequence[int], dims: int) -> list[int]:
    return list(value) * dims if len(value) == 1 else list(value)


def _argument(call: Call, name: str) -> Any:
    """An argument that not every overload has."""
    try:
        return call[name]
    except KeyError:
        return None


# ------------------------------------------------------------------ nonlinearities


def pointwise(call: Call) -> Tensor:
    """A nonlinearity of one tensor."""
    label = _neurons(call)
    if len(call.operation.inputs) > 1:
        raise call.refuse("it combines tensors in a way that is neither a sum nor a product with weights")
    packet = getattr(torch.ops.aten, call.name)
    function = getattr(packet, call.operation.func._overloadname)
    rest = tuple(call.operation.args[1:])
    activation = Pointwise(call.name, function, rest, tuple(sorted(call.operation.kwargs.items())))
    if bool((label == NOTHING).any()) and float(activation(torch.zeros(()))) != 0:
        raise call.refuse("it makes something of zeros that no neuron stands for (padding)")
    out = call.layer(activation)
    call.join(out, label)
    return torch.where(label == NOTHING, NOTHING, out)


def _neurons(call: Call) -> Tensor:
    label = call.label("self")
    if label is None or holds_elements(label):
        raise call.refuse("it changes weights, not neurons")
    return label
