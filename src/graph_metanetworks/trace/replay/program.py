"""Compile recorded operations into steps, and run them with given weights and inputs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch._C._functorch import is_batchedtensor
from torch._ops import OpOverload
from torch.utils._pytree import tree_leaves

from graph_metanetworks.errors import ReplayError
from graph_metanetworks.trace.record.tape import Escape, Operation, TensorRef, refs
from graph_metanetworks.trace.replay.memory import Memory, Sources, analyse, strided_index
from graph_metanetworks.trace.replay.readings import Readings
from graph_metanetworks.trace.replay.refusal import place, refusal

if TYPE_CHECKING:
    from graph_metanetworks.trace.replay.recording import Recording

aten = torch.ops.aten
WEIGHTS, INPUTS, NOTHING = frozenset({"weights"}), frozenset({"inputs"}), frozenset[str]()
COMPLEX = {torch.float16: torch.complex32, torch.float32: torch.complex64, torch.float64: torch.complex128}


class Slot(int):
    """The key of a tensor, in the place where the tensor goes."""


class Slots(list):
    """A list argument with slots in it, as of `aten.cat`."""


@dataclass(frozen=True, slots=True)
class Step:
    """One operation, ready to run."""

    func: Callable
    args: tuple
    kwargs: dict[str, Any]
    outputs: tuple[int, ...]
    spread: tuple[int, ...]  # outputs that later steps write to with values that differ under vmap
    done: tuple[int, ...]  # tensors that no later step reads
    operation: Operation
    seen: Any = None  # the number that Python saw, which may have decided what the network did next
    checks_shape: bool = False

    def run(self, tensors: dict[int, Tensor]) -> None:
        args = [_filled(value, tensors) for value in self.args]
        kwargs = {name: _filled(value, tensors) for name, value in self.kwargs.items()}
        result = self.func(*args, **kwargs)
        if self.seen is not None:
            self._check_seen(result)
        results = [result] if isinstance(result, Tensor) else _tensors_in(result)
        for key, value in zip(self.outputs, results, strict=True):
            tensors[key] = value
        if self.checks_shape:
            self._check_shape(results)

    def _check_seen(self, result: Any) -> None:
        if result != self.seen:
            raise ReplayError(
                f"{place(self.operation)} gives {result} to Python, but {self.seen} when the network was traced, "
                "so the network may do something else with these weights and inputs. Trace it with them, or "
                "let the module run: graph.with_module(model)."
            )

    def _check_shape(self, results: Sequence[Tensor]) -> None:
        for ref, value in zip(refs(self.operation.outputs), results, strict=True):
            if tuple(value.shape) != ref.shape:
                raise ReplayError(
                    f"{place(self.operation)} finds {tuple(value.shape)} elements, but {ref.shape} when the network "
                    "was traced, so its operations do not fit these weights and inputs. Trace it with them, or "
                    "let the module run: graph.with_module(model)."
                )


def _filled(value: Any, tensors: Mapping[int, Tensor]) -> Any:
    if type(value) is Slot:
        return tensors[value]
    if type(value) is Slots:
        return [_filled(item, tensors) for item in value]
    return value


def _tensors_in(result: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]


class Program:
    """A recording that is ready to run."""

    def __init__(self, recording: Recording):
        self.recording = recording
        self.readings = Readings(recording.readings, recording.num_nodes)
        operations, last = _flattened(recording.operations)
        sources = {key: WEIGHTS for key in (*recording.parameters, *recording.discrete)}
        sources |= {key: INPUTS for key in recording.inputs}
        self._memory = analyse(operations, sources)
        self._refs = _all_refs(operations)
        self._needed = {ref.key for operation in operations for ref in operation.inputs}
        self._needed |= {*recording.outputs, *self.readings.given}
        self._needed |= {recording.constants.same.get(key, key) for key in self._needed}
        self._needed |= {v.base for key, v in recording.constants.views.items() if key in self._needed}
        self.refusal = refusal(recording, operations, self._memory.sources)
        self._after = {last[step]: self.readings.at(step) for step in self.readings.steps}
        self._steps = () if self.refusal else self._compiled(operations)
        self._specialised: dict[tuple, tuple[tuple[Step, ...], dict[int, Tensor]]] = {}

    # -------------------------------------------------------------- running

    def run(
        self, weights: Mapping[str, Tensor], inputs: Mapping[int, Tensor], *, read: bool = False
    ) -> tuple[list[Tensor], Tensor | None]:
        """Return the outputs, and with `read` the mean and deviation of every node. [N, 2]"""
        if self.refusal:
            raise ReplayError(self.refusal)
        steps, constants = self._specialise(weights)
        tensors, mark = self._loaded(weights, inputs, constants)
        found = self.readings.begin(tensors) if read else None
        for number, step in enumerate(steps):
            try:
                step.run(tensors)
            except ReplayError:
                raise
            except Exception as error:
                raise ReplayError(f"{place(step.operation)} failed when it was run again: {error}") from error
            if mark is not None:
                for key in step.spread:
                    tensors[key] = torch.where(mark, tensors[key], tensors[key])
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
        tensors = {}
        for key, value in constants.items():
            tensors[key] = value
        for key, entry in entries.items():
            name = next((name for name in entry.names if name in weights), None)
            if name is not None and key in self._needed:
                tensors[key] = weights[name]
        for key, value in inputs.items():
            if key in self._needed:
                tensors[key] = value
        mark = _mark(weights.values(), inputs.values())
        for key in tensors:
            if self._refs[key].storage in self._memory.written:
                spread = mark is not None and self._refs[key].storage in self._memory.spread
                tensors[key] = torch.where(mark, tensors[key], tensors[key]) if spread else tensors[key].clone()
        for key, view in self.recording.constants.views.items():
            if key in self._needed:
                base = tensors[view.base]
                tensors[key] = base.reshape(-1)[view.elements.index().to(base.device)]
        return tensors, mark

    def _key(self, key: int) -> int:
        return self.recording.constants.same.get(key, key)

    # -------------------------------------------------------------- compiling

    def _compiled(self, operations: Sequence[Operation]) -> tuple[Step, ...]:
        last_use: dict[int, int] = {}
        for number, operation in enumerate(operations):
            for ref in (*operation.inputs, *refs(operation.outputs)):
                last_use[self._key(ref.key)] = number
            for plan in self._after.get(number, ()):
                last_use[plan.reading.key] = number
        kept = {self._key(key) for key in self.recording.outputs}
        done: dict[int, list[int]] = defaultdict(list)
        for key, number in last_use.items():
            if key not in kept:
                done[number].append(key)
        steps = []
        born = {self._refs[key].storage for key in self._loaded_keys}
        for number, operation in enumerate(operations):
            sources = self._memory.sources[number]
            outputs = refs(operation.outputs)
            spread = [r.key for r in outputs if r.storage in self._memory.spread and r.storage not in born]
            born |= {ref.storage for ref in outputs}
            steps.append(self._step(operation, sources, tuple(spread), tuple(done[number])))
        return tuple(steps)

    @property
    def _loaded_keys(self) -> set[int]:
        recording = self.recording
        given = {*recording.parameters, *recording.discrete, *recording.inputs}
        return (given | set(recording.constants.values) | set(recording.constants.views)) & set(self._refs)

    def _step(
        self, operation: Operation, sources: Sources, spread: tuple[int, ...], done: tuple[int, ...]
    ) -> Step:
        outputs = tuple(ref.key for ref in refs(operation.outputs))
        if not outputs:
            return self._without_outputs(operation, sources, done)
        func, args, kwargs = _substituted(operation, self._memory)
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


def _substituted(operation: Operation, memory: Memory) -> tuple[Callable, tuple, dict[str, Any]]:
    """Return what to call instead of an operation, where repeating it word for word would be wrong."""
    func, args, kwargs = operation.func, operation.args, operation.kwargs
    (first, *_) = refs(operation.outputs)
    if torch.Tag.inplace_view in func.tags:  # the caller's tensor must keep its shape
        return getattr(aten, func._schema.name.split("::")[1].removesuffix("_")), args, kwargs
    if func is aten.view.default and first.storage not in memory.written:
        return aten.reshape.default, args, kwargs  # results may have other strides, above all under vmap
    if func is aten.as_strided.default and first.storage not in memory.written:
        index = strided_index(operation)
        return lambda value: value.reshape(-1)[index.to(value.device)], args[:1], {}
    if not operation.inputs:
        known = {argument.name for argument in func._schema.arguments}
        explicit = {"dtype": first.dtype, "device": torch.device("cpu")}
        return func, args, kwargs | {name: value for name, value in explicit.items() if name in known}
    return func, args, kwargs

