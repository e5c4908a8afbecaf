"""Read a recording for the scales that it passes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

import graph_metanetworks.trace.scaling.rules  # noqa: F401  (registers the rules)
from graph_metanetworks.symmetry.scaling import Scaling, Units
from graph_metanetworks.trace.record.tape import Operation, TensorRef, refs
from graph_metanetworks.trace.scaling.labels import Labels, System
from graph_metanetworks.trace.scaling.step import Step, find

if TYPE_CHECKING:
    from graph_metanetworks.trace.replay.recording import Recording


def find_scaling(recording: Recording) -> Scaling:
    """Return the scales and the signs that every operation of a recording passes on."""
    return Scaling(*(_Reading(recording, mode).units() for mode in ("scale", "sign")))


class _Reading:
    """One pass over a recording, for scales or for signs."""

    def __init__(self, recording: Recording, mode: str):
        self.recording, self.mode = recording, mode
        self.system = System()
        self.values: dict[int, Labels] = {}
        self.unknowns: dict[int, list[Tensor]] = {}  # of each dimension of a parameter
        self.memory: dict[int, set[int]] = {}  # tensors that share memory

    def units(self) -> Units:
        for operation in self.recording.operations:
            self._read(operation)
        for key in self.recording.outputs:
            self.system.zero(self.values.get(key, Labels()))
        names = self.recording.parameters
        unknowns = {
            name: tuple(vector.numpy() for vector in own)
            for key, own in self.unknowns.items()
            for name in names[key].names
        }
        idle = self.system.choices_without_effect(self.unknowns.values(), self.mode)
        return Units(unknowns, self.system.solve(self.mode), idle)

    def value(self, ref: TensorRef) -> Labels:
        if ref.key not in self.values:
            self.values[ref.key] = self._first_seen(ref)
            self.memory.setdefault(ref.storage, set()).add(ref.key)
        return self.values[ref.key]

    def _first_seen(self, ref: TensorRef) -> Labels:
        if ref.key in self.recording.parameters:
            shape = self.recording.parameters[ref.key].shape
            self.unknowns[ref.key] = [self.system.unknowns(n) for n in shape]
            return Labels.of_dimensions(self.unknowns[ref.key], shape)
        return Labels(zero=ref.key in self.recording.zeros)

    def _read(self, operation: Operation) -> None:
        given = [self.value(ref) for ref in operation.inputs]
        outs = refs(operation.outputs)
        step = Step(operation, self.system, self.mode, self.value)
        rule = find(operation)
        results = rule(step) if rule else None
        if results is None:  # an operation without a rule reads and writes unscaled numbers
            for labels in given:
                self.system.zero(labels)
            results = [Labels() for _ in outs]
        written = {ref.key for ref in operation.writes}
        for ref, labels in zip(outs, results, strict=True):
            self.values[ref.key] = labels
            self.memory.setdefault(ref.storage, set()).add(ref.key)
            if ref.key in written:
                self._written(ref)

    def _written(self, ref: TensorRef) -> None:
        """Reset other tensors in the same memory, because the places of the write are not followed."""
        others = self.memory[ref.storage] - {ref.key}
        for key in others:
            self.system.zero(self.values[key])
            self.values[key] = Labels()
        if others:
            self.system.zero(self.values[ref.key])
            self.values[ref.key] = Labels()
