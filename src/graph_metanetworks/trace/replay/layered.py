"""Run stacked networks of linear layers and pointwise functions on all inputs at once.

Such networks map rows to rows, as INRs map coordinates to values. The rows of all inputs become columns,
`[n, width, p]` for n networks and p inputs, or `[1, width, p]` as long as no weight has changed them. A layer
is then one batched product of weights with columns, without copies and without `torch.func.vmap`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from numbers import Number
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor
from torch._ops import OpOverload

from graph_metanetworks.trace.record.operation import Operation, TensorRef, refs
from graph_metanetworks.trace.replay.sine import layer, sine_layer

if TYPE_CHECKING:
    from graph_metanetworks.trace.replay.recording import Recording

aten = torch.ops.aten
Kind = Literal["columns", "weight"]


@dataclass(frozen=True, slots=True)
class Step:
    """A function of stacked tensors, some of its arguments as references, and the key of its result."""

    run: Callable[..., Tensor]
    args: tuple
    kwargs: dict[str, Any]
    output: int
    kind: Kind


@dataclass(frozen=True)
class LayeredProgram:
    """The recording of a network of layers, ready to run."""

    input: int
    outputs: tuple[int, ...]
    names: Mapping[int, tuple[str, ...]]  # of weights
    steps: tuple[Step, ...]

    @staticmethod
    def of(recording: Recording, operations: Sequence[Operation]) -> LayeredProgram | None:
        """Compile a recording; None if there is anything in it but layers on rows."""
        shapes = [entry.shape for entry in recording.inputs.values()]
        if len(shapes) != 1 or len(shapes[0]) != 2 or shapes[0][0] != 1:
            return None
        (given,) = recording.inputs
        kinds: dict[int, Kind] = {key: "weight" for key in recording.parameters}
        kinds[given] = "columns"
        steps: list[Step] = []
        for operation in operations:
            if (step := _step(operation, kinds)) is None:
                return None
            kinds[step.output] = step.kind
            steps.append(step)
        if any(kinds.get(key) != "columns" for key in recording.outputs):
            return None
        names = {key: entry.names for key, entry in recording.parameters.items()}
        return LayeredProgram(given, recording.outputs, names, _with_sine_layers(steps, recording.outputs))

    def takes(self, weights: Mapping[str, Tensor]) -> bool:
        """Whether no weight is missing."""
        return all(any(name in weights for name in names) for names in self.names.values())

    def run(self, weights: Mapping[str, Tensor], inputs: Mapping[int, Tensor]) -> list[Tensor]:
        """Return the outputs `[n, p, 1, out]` for weights `[n, ...]` and inputs `[p, 1, width]`."""
        named = ((key, next(name for name in names if name in weights)) for key, names in self.names.items())
        tensors = {key: weights[name] for key, name in named}
        tensors[self.input] = inputs[self.input].movedim(0, 2).contiguous()
        for step in self.steps:
            args = [_filled(value, tensors) for value in step.args]
            tensors[step.output] = step.run(*args, **step.kwargs)
        networks = len(next(iter(weights.values())))
        columns = (tensors[key].expand(networks, -1, -1) for key in self.outputs)
        return [own.transpose(1, 2)[:, :, None] for own in columns]


def _filled(value: Any, tensors: Mapping[int, Tensor]) -> Any:
    if isinstance(value, TensorRef):
        return tensors[value.key]
    return [_filled(item, tensors) for item in value] if isinstance(value, list | tuple) else value


# ------------------------------------------------------------------ operations


def _step(operation: Operation, kinds: Mapping[int, Kind]) -> Step | None:
    """Return what repeats an operation on stacked tensors; None if it is no part of a layer."""
    func, args, kwargs, outputs = operation.func, operation.args, operation.kwargs, refs(operation.outputs)
    if len(outputs) != 1 or any(ref.key not in kinds for ref in operation.inputs):  # a constant, perhaps
        return None
    given = [kinds[ref.key] for ref in operation.inputs]
    key = outputs[0].key
    if func is aten.t.default and given == ["weight"]:
        return Step(_transposed, args, {}, key, "weight")
    if func is aten.mm.default and given == ["columns", "weight"]:
        return Step(_product, args, {}, key, "columns")
    if func is aten.addmm.default and given == ["weight", "columns", "weight"] and not kwargs:
        return Step(_layer, args, {}, key, "columns") if operation.inputs[0].ndim == 1 else None
    if set(given) != {"columns"} or len(outputs[0].shape) != 2:
        return None
    if func is aten.cat.default and operation.arguments["dim"] in (1, -1):
        return Step(_joined, args[:1], {}, key, "columns")
    if _is_pointwise(operation):
        return Step(func, args, kwargs, key, "columns")
    return None


def _is_pointwise(operation: Operation) -> bool:
    """Whether it maps each number of columns by itself, and without anything that depends on precision."""
    func = operation.func
    if not isinstance(func, OpOverload) or func._schema.is_mutable:
        return False
    plain = all(isinstance(value, Number | str | None) for value in operation.kwargs.values())
    known = all(isinstance(value, TensorRef | Number | str | None) for value in operation.args)
    random = torch.Tag.nondeterministic_seeded in func.tags
    return torch.Tag.pointwise in func.tags and plain and known and not random


def _transposed(weight: Tensor) -> Tensor:
    return weight.mT


def _joined(parts: Sequence[Tensor]) -> Tensor:
    networks = max(len(part) for part in parts)
    return torch.cat([part.expand(networks, -1, -1) for part in parts], dim=1)


def _layer(bias: Tensor, columns: Tensor, weight: Tensor) -> Tensor:  # [n, out], _, [n, in, out]
    return layer(bias, columns, weight.mT)


def _product(columns: Tensor, weight: Tensor) -> Tensor:
    return layer(weight.new_zeros(()).expand(len(weight), weight.shape[2]), columns, weight.mT)


def _sine_layer(bias: Tensor, columns: Tensor, weight: Tensor, scale: float = 1.0) -> Tensor:
    return sine_layer(bias, columns, weight.mT, scale)


# ------------------------------------------------------------------ joined steps


def _with_sine_layers(steps: Sequence[Step], outputs: Sequence[int]) -> tuple[Step, ...]:
    """Join layers, the number that they are multiplied by, and the sines of the result."""
    uses = Counter([ref.key for step in steps for ref in refs((step.args, step.kwargs))])
    uses.update(outputs)
    found: list[Step] = []
    for step in steps:
        found.append(step)
        for length in (3, 2):
            joined = _joined_steps(found[-length:], uses) if len(found) >= length else None
            if joined is not None:
                found[-length:] = [joined]
                break
    return tuple(found)


def _joined_steps(steps: Sequence[Step], uses: Mapping[int, int]) -> Step | None:
    """Return a layer with sines for a layer, perhaps a product with a number, and a sine."""
    first, *between, last = steps
    chained = all(
        [ref.key for ref in refs(after.args)] == [before.output] and uses[before.output] == 1
        for before, after in pairwise(steps)
    )
    if not chained or first.run is not _layer or last.run is not aten.sin.default:
        return None
    scales = [value for step in between for value in step.args if isinstance(value, int | float)]
    if [step.run for step in between] != [aten.mul.Tensor] * len(scales):
        return None
    return replace(last, run=_sine_layer, args=(*first.args, *scales))
