"""Compile recorded operations into steps, and run them with given weights and inputs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch._C._functorch import is_batchedtensor

from graph_metanetworks.errors import ReplayError
from graph_metanetworks.trace.record.operation import Operation, TensorRef, refs
from graph_metanetworks.trace.replay.layered import LayeredProgram
from graph_metanetworks.trace.replay.memory import Sources, analyse
from graph_metanetworks.trace.replay.readings import Readings, Statistics
from graph_metanetworks.trace.replay.refusal import refusal
from graph_metanetworks.trace.replay.step import Slot, Slots, Step
from graph_metanetworks.trace.replay.substitutes import substituted

if TYPE_CHECKING:
    from graph_metanetworks.trace.replay.recording import Recording

WEIGHTS, INPUTS = frozenset({"weights"}), frozenset({"inputs"})
COMPLEX = {torch.float16: torch.complex32, torch.float32: torch.complex64, torch.float64: torch.complex128}


class Program:
    """A recording that is ready to run."""

    def __init__(self, recording: Recording):
        self.recording = recording
        self.readings = Readings(recording.readings, recording.num_nodes)
        operations, last = _flattened(recording.operations)
        sources = {key: WEIGHTS for key in (*recording.parameters, *recording.discrete)}
        sources |= {key: INPUTS for key in recording.inputs}
        self._refs = _all_refs(operations)
        self._after = {last[step]: self.readings.at(step) for step in self.readings.steps}
        self._last_use = self._last_uses(operations)
        self._memory = analyse(operations, sources, self._last_use)
        self._needed = {ref.key for operation in operations for ref in operation.inputs}
        self._needed |= {*recording.outputs, *self.readings.given}
        self._needed |= {recording.constants.same.get(key, key) for key in self._needed}
        self._needed |= {v.base for key, v in recording.constants.views.items() if key in self._needed}
        self.refusal = refusal(recording, operations, self._memory.sources)
        self._steps = () if self.refusal else self._compiled(operations)
        self.layered = None if self.refusal else LayeredProgram.of(recording, operations)
        self.way = 0  # how `run_stacked` maps it
        self._specialised: dict[tuple, tuple[tuple[Step, ...], dict[int, Tensor]]] = {}

    # -------------------------------------------------------------- running

    def run(
        self, weights: Mapping[str, Tensor], inputs: Mapping[int, Tensor], *, read: bool = False
    ) -> tuple[list[Tensor], Tensor | None]:
        """Return the outputs, and with `read` what `readings` finds. [2, n]"""
        if self.refusal:
            raise ReplayError(self.refusal)
        steps, constants = self._specialise(weights)
        tensors, mark = self._loaded(weights, inputs, constants)
        found = Statistics() if read else None
        if found is not None:
            found.read(self._after.get(-1, ()), tensors)
        for number, step in enumerate(steps):
            step.run(tensors)
            if mark is not None:
                for key in step.spread:
                    tensors[key] = _spread(tensors[key], mark)
            if found is not None and number in self._after:
                found.read(self._after[number], tensors)
            for key in step.done:
                del tensors[key]
        outputs = [tensors[self._key(key)] for key in self.recording.outputs]
        return outputs, None if found is None else found.result()

    def _loaded(
        self, weights: Mapping[str, Tensor], inputs: Mapping[int, Tensor], constants: Mapping[int, Tensor]
    ) -> tuple[dict[int, Tensor], Tensor | None]:
        """Return the tensors that are there before the first step, and a mark that has every batch dimension.

        The mark is None outside of vmap.
        """
        entries = {**self.recording.parameters, **self.recording.discrete}
        tensors = dict(constants)
        for key, entry in entries.items():
            name = next((name for name in entry.names if name in weights), None)
            if name is not None and key in self._needed:
                tensors[key] = weights[name]
            elif key in self._needed and key not in constants:
                raise ReplayError(
                    f"the state dict has no '{entry.names[0]}', which the network reads, and its values are "
                    "not known from tracing. Pass the whole state dict, or trace with real weights."
                )
        for key, value in inputs.items():
            if key in self._needed:
                tensors[key] = value
        mark = _mark(weights.values(), inputs.values()) if self._memory.spread else None
        for key in tensors.keys() & self._refs.keys():
            storage = self._refs[key].storage
            if mark is not None and storage in self._memory.spread:
                tensors[key] = _spread(tensors[key], mark)
            elif storage in self._memory.written:
                tensors[key] = tensors[key].clone()
        for key, view in self.recording.constants.views.items():
            if key in self._needed:
                base = tensors[view.base]
                tensors[key] = base.reshape(-1)[view.elements.index().to(base.device)]
        return tensors, mark

    def _key(self, key: int) -> int:
        return self.recording.constants.same.get(key, key)

    # -------------------------------------------------------------- compiling

    def _last_uses(self, operations: Sequence[Operation]) -> dict[int, int]:
        """Return the operation after which no one reads a tensor, by its key."""
        last_use: dict[int, int] = {}
        for number, operation in enumerate(operations):
            for ref in (*operation.inputs, *refs(operation.outputs)):
                last_use[self._key(ref.key)] = number
            for plan in self._after.get(number, ()):
                last_use[plan.reading.key] = number
        return last_use | {self._key(key): len(operations) for key in self.recording.outputs}

    def _compiled(self, operations: Sequence[Operation]) -> tuple[Step, ...]:
        done: dict[int, list[int]] = defaultdict(list)
        for key, number in self._last_use.items():
            done[number].append(key)
        steps = []
        born = {self._refs[key].storage for key in self._loaded_keys}
        for number, operation in enumerate(operations):
            sources = self._memory.sources[number]
            outputs = refs(operation.outputs)
            new = [ref for ref in outputs if ref.storage not in born]
            spread = tuple(ref.key for ref in new if ref.storage in self._memory.spread)
            born |= {ref.storage for ref in outputs}
            steps.append(self._step(operation, sources, spread, tuple(done[number])))
        return tuple(steps)

    @property
    def _loaded_keys(self) -> set[int]:
        recording = self.recording
        given = {*recording.parameters, *recording.discrete, *recording.inputs}
        return (given | set(recording.constants.values) | set(recording.constants.views)) & set(self._refs)

    def _step(
        self, operation: Operation, sources: Sources, spread: tuple[int, ...], done: tuple[int, ...]
    ) -> Step:
        outputs = tuple(self._key(ref.key) for ref in refs(operation.outputs))
        if not outputs:
            return self._without_outputs(operation, sources, done)
        func, args, kwargs = substituted(operation, self._memory)
        return Step(
            func,
            tuple(self._slotted(value) for value in args),
            {name: self._slotted(value) for name, value in kwargs.items()},
            outputs,
            spread,
            done,
            operation,
            checks_shape=torch.Tag.dynamic_output_shape in operation.func.tags,
        )

    def _without_outputs(self, operation: Operation, sources: Sources, done: tuple[int, ...]) -> Step:
        """Check a number that Python saw; skip assertions, and whatever depends on constants only."""
        seen = operation.outputs if isinstance(operation.outputs, bool | int | float) else None
        if seen is None or not sources:
            return Step(lambda: (), (), {}, (), (), done, operation)
        args = tuple(self._slotted(value) for value in operation.args)
        return Step(operation.func, args, {}, (), (), done, operation, seen=seen)

    def _slotted(self, value: Any) -> Any:
        if isinstance(value, TensorRef):
            return Slot(self._key(value.key))
        if isinstance(value, list | tuple) and refs(value):
            return Slots(self._slotted(item) for item in value)
        return value

    # -------------------------------------------------------------- other devices and precisions

    def _specialise(self, weights: Mapping[str, Tensor]) -> tuple[tuple[Step, ...], dict[int, Tensor]]:
        """Return steps and constants for the device and the dtypes of the weights."""
        dtypes = self._dtypes(weights)
        device = next((value.device for value in weights.values()), torch.device("cpu"))
        key = (tuple(dtypes.items()), device)
        if key not in self._specialised:

            def adapted(value: Any) -> Any:
                if isinstance(value, torch.device):
                    return device
                return dtypes.get(value, value) if isinstance(value, torch.dtype) else value

            steps = tuple(
                replace(
                    step,
                    args=tuple(map(adapted, step.args)),
                    kwargs={name: adapted(value) for name, value in step.kwargs.items()},
                )
                for step in self._steps
            )
            constants = {
                key: value.to(device=device, dtype=adapted(value.dtype))
                for key, value in self.recording.constants.values.items()
                if key in self._needed
            }
            self._specialised[key] = steps, constants
        return self._specialised[key]

    def _dtypes(self, weights: Mapping[str, Tensor]) -> dict[torch.dtype, torch.dtype]:
        """Return what to replace dtypes by where all weights of one dtype now have another one."""
        found: dict[torch.dtype, set[torch.dtype]] = defaultdict(set)
        for entry in self.recording.parameters.values():
            for name in entry.names:
                if name in weights:
                    found[entry.dtype].add(weights[name].dtype)
        changed = {old: next(iter(new)) for old, new in found.items() if len(new) == 1 and old not in new}
        return changed | {
            COMPLEX[old]: COMPLEX[new] for old, new in changed.items() if old in COMPLEX and new in COMPLEX
        }


def _flattened(operations: Sequence[Operation]) -> tuple[list[Operation], dict[int, int]]:
    """Replace declared modules by their operations; return where each operation ends, too."""
    flat: list[Operation] = []
    last = {-1: -1}
    for number, operation in enumerate(operations):
        flat += operation.body or (operation,)
        last[number] = len(flat) - 1
    return flat, last


def _all_refs(operations: Sequence[Operation]) -> dict[int, TensorRef]:
    return {ref.key: ref for o in operations for ref in (*refs(o.outputs), *o.inputs)}


def _mark(*groups: Any) -> Tensor | None:
    """Return a boolean scalar that has the batch dimensions of weights and inputs; None outside of vmap."""
    mark = None
    for group in groups:
        found = next((value for value in group if is_batchedtensor(value) and value.numel()), None)
        if found is not None:
            own = found.detach().reshape(-1)[0] == 0
            mark = own if mark is None else mark | own
    return mark


def _spread(value: Tensor, mark: Tensor) -> Tensor:
    """Return a copy with the batch dimensions of the mark."""
    return torch.where(mark, value, value)
