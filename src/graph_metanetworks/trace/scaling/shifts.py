"""Follow biases to the sines that read them, to find phases.

Labels say which element of which bias is added to each element of a tensor, and times what: each number
stands for an element and a factor. An operation without a rule here does not pass shifts on, so whatever
reaches it has no phase.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from graph_metanetworks.trace.interpret.labels import compact, pattern
from graph_metanetworks.trace.interpret.registry import functional_name
from graph_metanetworks.trace.record.operation import TensorRef
from graph_metanetworks.trace.scaling.labels import Labels
from graph_metanetworks.trace.scaling.rules.elementwise import linear
from graph_metanetworks.trace.scaling.rules.moving import joined, moved, reshaped
from graph_metanetworks.trace.scaling.rules.norms import first_normalized, laid
from graph_metanetworks.trace.scaling.step import RULES, Rule, Step


@dataclass(frozen=True, eq=False)
class BiasPhase:
    """The elements of a bias that have a phase."""

    key: int  # of the bias on the tape
    elements: Tensor  # of the flattened bias
    frequency: Tensor  # float64
    unknowns: slice  # their numbers among all elements with a phase


class Shifts:
    """The elements of all biases, and which operations read them."""

    def __init__(self, constants: Mapping[int, complex]) -> None:
        self.constants = constants  # the value of tensors that are equal everywhere, by key
        self.sines: dict[int, Labels] = {}  # what each sine and cosine reads, by the id of the operation
        self.added: set[int] = set()  # biases that are added to something, by key
        self._starts: dict[int, int] = {}  # the first element of each bias, by key
        self._lost = torch.ones(1, dtype=torch.bool)  # whether each element is read by anything but sines
        self._owner = torch.full((1,), -1)  # key of the bias of each element
        self._element = torch.zeros(1, dtype=torch.int64)  # of each number; 0 is none
        self._factor = torch.zeros(1, dtype=torch.float64)

    # -------------------------------------------------------------- labels

    def parameter(self, key: int, shape: Sequence[int]) -> Labels:
        """Return the labels of a parameter: an element for each entry of a vector, none for a matrix."""
        count = prod(shape)
        if count != max(shape, default=1):
            return Labels()
        start = self._starts[key] = len(self._lost)
        self._lost = torch.cat([self._lost, torch.zeros(count, dtype=torch.bool)])
        self._owner = torch.cat([self._owner, torch.full((count,), key)])
        ones = torch.ones(count, dtype=torch.float64)
        return Labels([self._numbers(torch.arange(start, start + count), ones).reshape(tuple(shape))])

    def _numbers(self, elements: Tensor, factors: Tensor) -> Tensor:
        first = len(self._element)
        self._element = torch.cat([self._element, elements])
        self._factor = torch.cat([self._factor, factors])
        return torch.arange(first, len(self._element))

    def zero(self, labels: Labels) -> None:
        """Give up the phases of all that is added to a tensor."""
        self._lost[self._elements(labels)] = True

    def note_added(self, labels: Labels) -> None:
        self.added |= set(self._owner[self._elements(labels)].tolist()) - {-1}

    def _elements(self, labels: Labels) -> Tensor:
        return self._element[
            torch.cat([torch.zeros(1, dtype=torch.int64), *map(torch.unique, labels.tensors)])
        ]

    def times(self, labels: Labels, factor: float) -> Labels:
        """Return the labels of a tensor that is multiplied by a number."""
        return labels if factor == 1 else Labels([self._multiplied(x, factor) for x in labels.tensors])

    def _multiplied(self, label: Tensor, factor: float) -> Tensor:
        small = compact(label, pattern(label))
        found, where = small.unique(return_inverse=True)
        numbers = self._numbers(self._element[found], factor * self._factor[found])
        return torch.where(small == 0, 0, numbers[where]).expand(label.shape)

    # -------------------------------------------------------------- results

    def phases(self) -> list[BiasPhase]:
        """Return the phases of all biases: of elements that only sines read, all with one frequency."""
        frequency = torch.zeros(len(self._lost), dtype=torch.float64)
        for label in (label for labels in self.sines.values() for label in labels.tensors):
            numbers = label.unique()
            elements, factors = self._element[numbers], self._factor[numbers].abs()
            before = frequency[elements]
            frequency[elements] = factors
            differs = (frequency[elements] != factors) | ((before != 0) & (before != factors))
            self._lost[elements[differs]] = True
        kept = ~self._lost & (frequency > 0)
        found, count = [], 0
        for key, start in self._starts.items():
            (elements,) = (kept & (self._owner == key)).nonzero(as_tuple=True)
            if len(elements):
                unknowns = slice(count, count := count + len(elements))
                found.append(BiasPhase(key, elements - start, frequency[elements], unknowns))
        return found

    def parities(self, phases: Sequence[BiasPhase], unknowns: Tensor) -> dict[int, Labels]:
        """Return labels of what each sine and cosine reads: the unknowns of phases. By operation."""
        table = torch.zeros(len(self._lost), dtype=torch.int64)
        for phase in phases:
            table[self._starts[phase.key] + phase.elements] = unknowns[phase.unknowns]
        found = {}
        for operation, labels in self.sines.items():
            for label in labels.tensors:
                own = table[self._element[compact(label, pattern(label))]]
                if own.any():
                    found[operation] = Labels([own.expand(label.shape)])
        return found


# ------------------------------------------------------------------ rules

PASS_ON = (linear, reshaped, moved, joined)
SHIFT_RULES: dict[str, Rule] = {name: rule for name, rule in RULES.items() if rule in PASS_ON}


def shift_rule(*names: str) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        SHIFT_RULES.update(dict.fromkeys(names, function))
        return function

    return register


@shift_rule("sin", "cos")
def sine(step: Step) -> list[Labels]:
    step.system.sines[id(step.operation)] = step.labels("self")
    return [Labels()]


@shift_rule("neg")
def negated(step: Step) -> list[Labels]:
    return [step.system.times(step.labels("self"), -1.0)]


@shift_rule("mul", "div")
def multiplied(step: Step) -> list[Labels] | None:
    """Multiply by a number, or by a tensor with one known value."""
    divides = functional_name(step.operation.func) == "aten::div"
    numbers = {name: _number(step, name) for name in ("self", "other")}
    if step.get("rounding_mode") or (divides and not numbers["other"]):
        return None
    if numbers["other"] is not None and isinstance(step["self"], TensorRef):
        factor = 1 / numbers["other"] if divides else numbers["other"]
        return [step.system.times(step.labels("self").expand(step.shape), factor)]
    if numbers["self"] is not None and not divides:
        return [step.system.times(step.labels("other").expand(step.shape), numbers["self"])]
    return None


def _number(step: Step, name: str) -> float | None:
    given = step[name]
    number = step.system.constants.get(given.key) if isinstance(given, TensorRef) else given
    return None if number is None or isinstance(number, complex) else float(number)


@shift_rule("add", "sub")
def summed(step: Step) -> list[Labels]:
    minus = functional_name(step.operation.func) == "aten::sub"
    factors = {"self": 1.0, "other": -step["alpha"] if minus else step["alpha"]}
    terms = []
    for name, factor in factors.items():
        if isinstance(step[name], TensorRef):
            terms.append(step.system.times(step.labels(name).expand(step.shape), factor))
    return [_plus(step, *terms)]


def _plus(step: Step, *terms: Labels) -> Labels:
    """Add tensors. If several are shifted, only the first may move: it alone can make up any phase."""
    shifted = [term for term in terms if term.tensors]
    for term in shifted:
        step.system.note_added(term)
    for term in shifted[1:]:
        step.system.zero(term)
    return shifted[0] if shifted else Labels()


@shift_rule("addmm", "baddbmm")
def product_plus(step: Step) -> list[Labels]:
    for name in ("mat1", "batch1", "mat2", "batch2"):
        if step.get(name) is not None:
            step.system.zero(step.labels(name))
    return [_plus(step, step.system.times(step.labels("self").expand(step.shape), step["beta"]))]


@shift_rule("convolution")
def convolution_plus(step: Step) -> list[Labels]:
    return [_with_bias(step, ("input", "weight"), first=1)]


@shift_rule(
    "native_layer_norm",
    "native_group_norm",
    "native_batch_norm",
    "_native_batch_norm_legit",
    "_native_batch_norm_legit_no_training",
)
def norm_plus(step: Step) -> list[Labels]:
    others = ("input", "weight", "running_mean", "running_var")
    return [_with_bias(step, others, first_normalized(step)), *(Labels() for _ in step.outs[1:])]


def _with_bias(step: Step, others: Sequence[str], first: int) -> Labels:
    for name in others:
        if step.get(name) is not None:
            step.system.zero(step.labels(name))
    bias: TensorRef | None = step["bias"]
    return Labels() if bias is None else _plus(step, laid(step.value(bias), bias, step.shape, first))
