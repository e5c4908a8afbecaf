"""Find the numbers in recorded operations that are the size of a batch, so that programs take any batch."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.utils._pytree import tree_map_only

from graph_metanetworks.errors import PruneError, TraceError
from graph_metanetworks.trace.record.operation import Operation, TensorRef
from graph_metanetworks.trace.replay.recording import Recording
from graph_metanetworks.trace.tracer import Tracer

Size = Callable[[int, int, int], Any]  # a number that is left, and what was recorded with each of two batches
SHAPES = ("size", "shape")  # arguments that are the shape of the result


class FixedBatch(PruneError):
    """Operations hold for the batch of the example only."""


@dataclass(frozen=True, eq=False)
class Batch:
    """The size of a batch in the recorded operations of a network."""

    input: int  # the first input that has it, as its first dimension
    size: int
    operations: Mapping[int, tuple[Operation, Operation]]  # with this batch and one more, by id

    @staticmethod
    def of(recording: Recording, model: nn.Module, args: tuple, kwargs: dict[str, Any]) -> Batch:
        """Record the operations of a network, which may have been resized since, with one example more."""
        given = recording.matched(args, kwargs)
        sizes = {value.shape[0] if value.ndim else 0 for value in given.values()}
        if len(sizes) != 1 or sizes == {0}:
            raise FixedBatch("its inputs do not have the same first dimension")
        (size,) = sizes
        first, second = (
            _operations(_recorded(model, *enlarged(size, count, args, kwargs)), recording) for count in (0, 1)
        )
        pairs = zip(_flat(recording), first, second, strict=True)
        return Batch(next(iter(given)), size, {id(own): (one, other) for own, one, other in pairs})

    def is_along(self, operation: Operation, place: int, dim: int) -> bool:
        """Return whether a dimension of an argument depends on the batch."""
        first, second = self.operations[id(operation)]
        return first.inputs[place].shape[dim] != second.inputs[place].shape[dim]

    def numbers(self, operation: Operation, changed: Mapping[str, Any], size: Size) -> dict[str, Any]:
        """Return the arguments of an operation that hold the size of the batch, in terms of `size`."""
        first, second = self.operations[id(operation)]
        found: dict[str, Any] = {}
        for name, left in {**operation.arguments, **changed}.items():
            if name in changed and name in SHAPES:
                one, other = first.outputs.shape, second.outputs.shape
            elif name in first.arguments:
                one, other = first.arguments[name], second.arguments[name]
            else:
                continue
            lists = [each for each in (left, one, other) if isinstance(each, list | tuple)]
            if lists and (len(lists) < 3 or len({len(each) for each in lists}) > 1):
                continue
            if lists:
                parts = [_number(size, *each) for each in zip(left, one, other, strict=True)]
                if any(new is not old for new, old in zip(parts, left, strict=True)):
                    found[name] = parts
            elif one is not other and _number(size, left, one, other) is not left:
                found[name] = _number(size, left, one, other)
        return found

    def expression(self, graph: fx.Graph, batch: fx.Node) -> Size:
        """Return how to compute a number from the size of the batch that a program is given."""

        def size(left: int, one: int, other: int) -> Any:
            if one * (self.size + 1) == other * self.size and left % self.size == 0:
                factor, rest = left // self.size, 0
            elif left == one:  # nothing was removed along this dimension
                factor, rest = other - one, one - (other - one) * self.size
            else:
                raise FixedBatch(f"{one} becomes {other} with another batch, in a way that is not followed")
            made = batch if factor == 1 else graph.call_function(operator.mul, (batch, factor))
            return graph.call_function(operator.add, (made, rest)) if rest else made

        return size


def enlarged(size: int, count: int, args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    """Return an example with its first entries again at the end; tensors without a batch stay."""

    def enlarge(value: Tensor) -> Tensor:
        if not value.ndim or value.shape[0] != size:
            return value
        return torch.cat([value, *[value[:1]] * count])

    return tree_map_only(Tensor, enlarge, (args, kwargs))


def _recorded(model: nn.Module, args: tuple, kwargs: dict[str, Any]) -> Recording:
    try:
        graph = Tracer(unknown="pin", unused="keep").trace(model, *args, **kwargs)
    except TraceError as error:
        raise FixedBatch(f"it does not run with a larger one: {error}") from error
    assert graph.recording is not None
    return graph.recording


def _flat(recording: Recording) -> list[Operation]:
    return [inner for operation in recording.operations for inner in (operation, *operation.body)]


def _operations(recording: Recording, like: Recording) -> list[Operation]:
    """Return the operations of a recording if they are those of another."""
    flat = _flat(recording)
    if [operation.func for operation in flat] != [operation.func for operation in _flat(like)]:
        one = any(entry.shape[:1] == (1,) for entry in like.inputs.values())
        hint = ". Use an example with a batch of two: one is a special case to PyTorch" if one else ""
        raise FixedBatch(f"it calls other operations with a larger one{hint}")
    shapes, others = (
        {key: value.shape for key, value in own.constants.values.items()} for own in (recording, like)
    )
    if shapes != others:
        raise FixedBatch("it reads constants that depend on the batch")
    return flat


def _number(size: Size, left: Any, one: Any, other: Any) -> Any:
    """Return what is left of an argument, in terms of the batch if it differs with another one."""
    if isinstance(one, TensorRef) or one == other:
        return left
    if not all(type(value) is int for value in (left, one, other)):
        raise FixedBatch(f"{one} becomes {other} with another batch")
    return size(left, one, other)
