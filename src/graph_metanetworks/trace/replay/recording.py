"""The operations of a forward pass, kept without the network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from graph_metanetworks.errors import ReplayError
from graph_metanetworks.symmetry.group import Symmetry
from graph_metanetworks.symmetry.scaling import Scaling
from graph_metanetworks.trace.interpret.interpreter import OperationAxes
from graph_metanetworks.trace.record.inputs import named_inputs
from graph_metanetworks.trace.record.operation import Escape, Operation, TensorRef, map_leaves, refs
from graph_metanetworks.trace.replay.constants import Constants, collect
from graph_metanetworks.trace.replay.module_runner import ModuleRunner
from graph_metanetworks.trace.replay.program import Program
from graph_metanetworks.trace.replay.readings import Reading
from graph_metanetworks.trace.replay.refusal import simplified
from graph_metanetworks.trace.scaling import find_frequencies, find_scaling

LARGEST_CONSTANT = 1_000_000  # elements; larger constants are not checked for equal values


@dataclass(frozen=True, slots=True)
class Entry:
    """A tensor that comes anew with every run: a parameter, a buffer, an input."""

    names: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: torch.dtype


@dataclass(frozen=True, eq=False)
class Recording:
    """The operations of a forward pass with references instead of tensors, and the constants that they read.

    Tensors are known by the keys of their references.
    """

    operations: tuple[Operation, ...]
    parameters: Mapping[int, Entry]
    discrete: Mapping[int, Entry]  # integer, boolean and complex entries of the state dict
    inputs: Mapping[int, Entry]
    outputs: tuple[int, ...]
    constants: Constants
    uniform: Mapping[int, complex]  # the value of constants that are equal everywhere
    readings: tuple[Reading, ...] = ()
    num_nodes: int = 0
    axes: tuple[OperationAxes, ...] = ()  # of each operation
    module: nn.Module | None = None  # runs instead of the operations

    @staticmethod
    def of(
        operations: Iterable[Operation],
        parameters: Iterable[tuple[TensorRef, tuple[str, ...]]],
        discrete: Iterable[tuple[TensorRef, tuple[str, ...]]],
        inputs: Iterable[tuple[TensorRef, tuple[str, ...]]],
        outputs: Sequence[TensorRef],
        *,
        owned: Mapping[int, list[TensorRef]],
        originals: Mapping[int, Tensor],
        readings: Sequence[Reading],
        num_nodes: int,
        axes: Iterable[OperationAxes],
    ) -> Recording:
        """Drop all tensors but the constants.

        `owned` holds the parameters of each declared module, which reads them unrecorded. `originals` holds
        constants as they were before the network wrote to them.
        """
        operations = list(operations)
        parameters, discrete, inputs = list(parameters), list(discrete), list(inputs)
        given = {ref.key: ref for ref, _ in (*parameters, *discrete, *inputs)}
        flat = [inner for operation in operations for inner in operation.body or (operation,)]
        light = _Light()
        return Recording(
            tuple(light.operation(operation, owned.get(id(operation.func), [])) for operation in operations),
            _entries(parameters),
            _entries(discrete),
            _entries(inputs),
            tuple(ref.key for ref in outputs),
            collect(flat, given, [ref for ref, _ in discrete], outputs, originals),
            _uniform(operations, set(given)),
            tuple(readings),
            num_nodes,
            tuple(own.resolved() for own in axes),
        )

    @property
    def input_shape(self) -> tuple[int, ...] | None:
        """The shape of an example, if the network takes one batch of them in floating point."""
        entries = list(self.inputs.values())
        if len(entries) != 1 or not entries[0].dtype.is_floating_point or not entries[0].shape:
            return None
        return entries[0].shape[1:]

    def scaling(self, symmetry: Symmetry) -> Scaling:
        """Return the scales, signs and phases that every operation passes on."""
        return find_scaling(self, symmetry)

    def frequencies(self) -> dict[str, Tensor]:
        """Return the frequencies of the sines that read biases; see `ParameterGraph.frequencies`."""
        return find_frequencies(self)

    # -------------------------------------------------------------- running

    @cached_property
    def program(self) -> Program | ModuleRunner:
        """What runs: the operations, or a module if one was given."""
        return Program(self) if self.module is None else ModuleRunner(self, self.module)

    @property
    def refusal(self) -> str:
        """Why the operations cannot be run again; empty if they can."""
        return self.program.refusal

    def run(
        self, weights: Mapping[str, Tensor], inputs: Mapping[int, Tensor], *, read: bool = False
    ) -> tuple[list[Tensor], Tensor | None]:
        """Return the outputs, and with `read` the mean and deviation of every node. [N, 2]"""
        outputs, statistics = self.program.run(weights, inputs, read=read)
        return outputs, None if statistics is None else self.program.readings.of_nodes(statistics)

    def matched(self, args: tuple, kwargs: dict[str, Any]) -> dict[int, Tensor]:
        """Match the arguments of a call to the inputs of the recording, by name or else in order."""
        given = named_inputs(args, kwargs)
        wanted = [(name, key) for key, entry in self.inputs.items() for name in entry.names]
        names = [name for name, _ in wanted]
        if sorted(names) == sorted(name for name, _ in given):
            by_name = dict(given)
            pairs = [(key, name, by_name[name]) for name, key in wanted]
        elif len(given) == len(wanted):
            pairs = [(key, name, value) for (name, key), (_, value) in zip(wanted, given, strict=True)]
        else:
            raise ReplayError(
                f"the network was traced with {len(wanted)} tensor(s) ({', '.join(names)}), but it is run "
                f"with {len(given)}. Pass the same arguments as to gmn.trace."
            )
        for key, name, value in pairs:
            self.check_input(key, name, value)
        return {key: value for key, _, value in pairs}

    def check_input(self, key: int, name: str, value: Tensor) -> None:
        entry = self.inputs[key]
        if tuple(value.shape) != entry.shape:
            raise ReplayError(
                f"'{name}' has shape {tuple(value.shape)}, but the network was traced with {entry.shape}, "
                "and its operations hold for that shape. Trace it with an input of this shape, or use "
                "torch.func.vmap over inputs of the traced shape."
            )
        if value.is_floating_point() != entry.dtype.is_floating_point:
            raise ReplayError(
                f"'{name}' is {value.dtype}, but the network was traced with {entry.dtype}. Pass an input of "
                "that kind."
            )

    # -------------------------------------------------------------- pickling

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # nothing that was compiled


def _entries(tensors: Iterable[tuple[TensorRef, tuple[str, ...]]]) -> dict[int, Entry]:
    found: dict[int, Entry] = {}
    for ref, names in tensors:
        known = found[ref.key].names if ref.key in found else ()
        found[ref.key] = Entry((*known, *names), ref.shape, ref.dtype)
    return found


def _uniform(operations: Sequence[Operation], made: set[int]) -> dict[int, complex]:
    """Return the value of each constant that is equal everywhere, by key."""
    written = {ref.storage for operation in operations for ref in operation.writes}
    found: dict[int, complex] = {}
    for operation in operations:
        for ref in operation.inputs:
            if ref.key not in made and ref.storage not in written and _is_uniform(ref):
                found[ref.key] = ref.value.reshape(-1)[0].item()
            made.add(ref.key)
        made |= {ref.key for ref in refs(operation.outputs)}
    return found


def _is_uniform(ref: TensorRef) -> bool:
    if not ref.has_value or ref.value.layout != torch.strided:
        return False
    return 0 < ref.value.numel() <= LARGEST_CONSTANT and bool((ref.value == ref.value.reshape(-1)[0]).all())


class _Light:
    """Makes operations without tensors, and without the file they were called from."""

    def __init__(self) -> None:
        self._storages: dict[int, int] = {}  # numbered in order, so that equal recordings are equal

    def operation(self, operation: Operation, unseen: Sequence[TensorRef] = ()) -> Operation:
        is_declared = isinstance(operation.func, nn.Module)
        return replace(
            operation,
            func=Escape(type(operation.func).__name__) if is_declared else operation.func,
            args=map_leaves(self._leaf, (*operation.args, *unseen)),
            kwargs=map_leaves(self._leaf, operation.kwargs),
            outputs=map_leaves(self._leaf, operation.outputs),
            location="",
            body=tuple(self.operation(inner) for inner in operation.body),
        )

    def _leaf(self, leaf: Any) -> Any:
        if not isinstance(leaf, TensorRef):
            return simplified(leaf)
        return leaf.without_tensor(self._storages.setdefault(leaf.storage, len(self._storages)))
