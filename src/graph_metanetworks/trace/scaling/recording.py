"""Read a recording for the scales that it passes on."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING

import torch
from torch import Tensor

import graph_metanetworks.trace.scaling.rules  # noqa: F401  (registers the rules)
from graph_metanetworks.symmetry.group import Symmetry
from graph_metanetworks.symmetry.scaling import Scaling
from graph_metanetworks.symmetry.units import Phase, Units
from graph_metanetworks.trace.record.operation import Operation, TensorRef, refs
from graph_metanetworks.trace.scaling.labels import Labels, System
from graph_metanetworks.trace.scaling.shifts import SHIFT_RULES, Shifts, sine
from graph_metanetworks.trace.scaling.step import RULES, Rule, Step, find

if TYPE_CHECKING:
    from graph_metanetworks.trace.replay.recording import Recording


def find_scaling(recording: Recording, symmetry: Symmetry) -> Scaling:
    """Return the scales, signs and phases that every operation of a recording passes on."""
    shifts, entries = Shifts(recording.uniform), recording.parameters
    _Reading(recording, "shift", shifts, SHIFT_RULES).run()
    biases = shifts.phases()
    # units that are permuted on their own in each head or expert cannot share scales across them
    nested = {
        (key, dim)
        for key, entry in entries.items()
        for dim in range(len(entry.shape))
        if (entry.names[0], dim) in symmetry.nested_dimensions
    }
    scales, signs = System(nested), System(nested)
    parities = signs.fresh(sum(len(bias.elements) for bias in biases))
    _Reading(recording, "scale", scales, RULES).run()
    _Reading(recording, "sign", signs, RULES, shifts.parities(biases, parities)).run()
    return Scaling(
        _units(recording, scales, "scale", parities[:0]),
        _units(recording, signs, "sign", parities),
        {
            name: Phase(bias.elements.numpy(), parities[bias.unknowns].numpy(), bias.frequency.numpy())
            for bias in biases
            for name in entries[bias.key].names
        },
        frozenset(name for key in shifts.added for name in entries[key].names),
    )


def find_frequencies(recording: Recording) -> dict[str, Tensor]:
    """Return the frequency of each element of the biases that sines read, 0 for elements without a phase."""
    if not any(find(operation, SHIFT_RULES) is sine for operation in recording.operations):
        return {}
    shifts, found = Shifts(recording.uniform), {}
    _Reading(recording, "shift", shifts, SHIFT_RULES).run()
    for bias in shifts.phases():
        entry = recording.parameters[bias.key]
        frequency = torch.zeros(prod(entry.shape), dtype=torch.float64)
        frequency[bias.elements] = bias.frequency
        found |= dict.fromkeys(entry.names, frequency)
    return found


def _units(recording: Recording, system: System, mode: str, parities: Tensor) -> Units:
    unknowns = {
        name: tuple(vector.numpy() for vector in own)
        for key, own in system.parameters.items()
        for name in recording.parameters[key].names
    }
    solution = system.solve(mode)
    free = system.choices_with_fixed(parities, mode) if len(parities) else solution.free
    return Units(unknowns, solution, free - system.choices_without_effect(parities, mode))


class _Reading:
    """One pass over a recording, for scales, for signs or for shifts."""

    def __init__(
        self,
        recording: Recording,
        mode: str,
        system: System | Shifts,
        rules: Mapping[str, Rule],
        parities: Mapping[int, Labels] | None = None,
    ):
        self.recording, self.mode, self.system, self.rules = recording, mode, system, rules
        self.parities = parities or {}  # of what each sine reads, by the id of the operation
        self.values: dict[int, Labels] = {}
        self.memory: dict[int, set[int]] = {}  # tensors that share memory

    def run(self) -> None:
        for operation in self.recording.operations:
            self._read(operation)
        for key in self.recording.outputs:
            self.system.zero(self.values.get(key, Labels()))

    def value(self, ref: TensorRef) -> Labels:
        if ref.key not in self.values:
            self.values[ref.key] = self._first_seen(ref)
            self.memory.setdefault(ref.storage, set()).add(ref.key)
        return self.values[ref.key]

    def _first_seen(self, ref: TensorRef) -> Labels:
        if ref.key in self.recording.parameters:
            return self.system.parameter(ref.key, self.recording.parameters[ref.key].shape)
        return Labels(zero=self.recording.uniform.get(ref.key) == 0)

    def _read(self, operation: Operation) -> None:
        given = [self.value(ref) for ref in operation.inputs]
        outs = refs(operation.outputs)
        parity = self.parities.get(id(operation), Labels())
        step = Step(operation, self.system, self.mode, self.value, parity)
        rule = find(operation, self.rules)
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
