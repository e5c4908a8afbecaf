"""The part of a tape that is kept to find scales later, without the tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

import graph_metanetworks.trace.scaling.rules  # noqa: F401  (registers the rules)
from graph_metanetworks.symmetry.group import Symmetry
from graph_metanetworks.symmetry.scaling import Scaling
from graph_metanetworks.symmetry.units import Phase, Units
from graph_metanetworks.trace.record.tape import Escape, Operation, TensorRef, refs
from graph_metanetworks.trace.scaling.labels import Labels, System
from graph_metanetworks.trace.scaling.shifts import SHIFT_RULES, Shifts
from graph_metanetworks.trace.scaling.step import RULES, Rule, Step, find

LARGEST_CONSTANT = 1_000_000  # elements; larger constants are not checked for equal values


@dataclass(frozen=True, eq=False)
class Recording:
    """The operations of a forward pass with references instead of tensors."""

    operations: tuple[Operation, ...]
    parameters: Mapping[int, tuple[str, ...]]  # names of a parameter, by the key of its tensor
    shapes: Mapping[int, tuple[int, ...]]
    outputs: frozenset[int]
    symmetry: Symmetry
    constants: Mapping[int, complex]  # the value of constants that are equal everywhere, by key

    @staticmethod
    def of(
        operations: Iterable[Operation],
        parameters: Mapping[int, tuple[TensorRef, tuple[str, ...]]],
        owned: Mapping[int, list[TensorRef]],
        inputs: Iterable[TensorRef],
        outputs: Iterable[TensorRef],
        symmetry: Symmetry,
    ) -> Recording:
        """Drop the tensors.

        `owned` holds the parameters of each declared module, which reads them unrecorded.
        """
        operations = list(operations)
        made = {ref.key for ref in inputs} | set(parameters)
        written = {ref.storage for operation in operations for ref in operation.writes}
        constants, light = {}, []
        for operation in operations:
            for ref in operation.inputs:
                if ref.key not in made and ref.storage not in written and _is_uniform(ref):
                    constants[ref.key] = ref.value.reshape(-1)[0].item()
                made.add(ref.key)
            made |= {ref.key for ref in refs(operation.outputs)}
            unseen = tuple(owned.get(id(operation.func), ()))
            light.append(_without_tensors(replace(operation, args=(*operation.args, *unseen))))
        return Recording(
            tuple(light),
            {key: names for key, (_, names) in parameters.items()},
            {key: ref.shape for key, (ref, _) in parameters.items()},
            frozenset(ref.key for ref in outputs),
            symmetry,
            constants,
        )

    def scaling(self) -> Scaling:
        """Return the scales, signs and phases that every operation passes on."""
        shifts = Shifts(self.constants)
        _Reading(self, "shift", shifts, SHIFT_RULES).run()
        biases = shifts.phases()
        # units that are permuted on their own in each head or expert cannot share scales across them
        nested = {
            (key, dim)
            for key, names in self.parameters.items()
            for dim in range(len(self.shapes[key]))
            if (names[0], dim) in self.symmetry.nested_dimensions
        }
        scales, signs = System(nested), System(nested)
        parities = signs.fresh(sum(len(bias.elements) for bias in biases))
        _Reading(self, "scale", scales, RULES).run()
        _Reading(self, "sign", signs, RULES, shifts.parities(biases, parities)).run()
        return Scaling(
            self._units(scales, "scale", parities[:0]),
            self._units(signs, "sign", parities),
            {
                name: Phase(bias.elements.numpy(), parities[bias.unknowns].numpy(), bias.frequency.numpy())
                for bias in biases
                for name in self.parameters[bias.key]
            },
            frozenset(name for key in shifts.added for name in self.parameters[key]),
        )

    def _units(self, system: System, mode: str, parities: Tensor) -> Units:
        unknowns = {
            name: tuple(vector.numpy() for vector in own)
            for key, own in system.parameters.items()
            for name in self.parameters[key]
        }
        solution = system.solve(mode)
        free = system.choices_with_fixed(parities, mode) if len(parities) else solution.free
        return Units(unknowns, solution, free - system.choices_without_effect(parities, mode))

    def __reduce__(self) -> tuple:
        return _Solved, (self.scaling(),)  # operations cannot be pickled; what they demand can


@dataclass(frozen=True, eq=False)
class _Solved:
    """A recording that has been solved."""

    found: Scaling

    def scaling(self) -> Scaling:
        return self.found


def _is_uniform(ref: TensorRef) -> bool:
    if not ref.has_value or ref.value.layout != torch.strided:
        return False
    return 0 < ref.value.numel() <= LARGEST_CONSTANT and bool((ref.value == ref.value.reshape(-1)[0]).all())


def _without_tensors(operation: Operation) -> Operation:
    nothing = torch.empty(0, device="meta")

    def light(tree: Any) -> Any:
        return tree_map_only(TensorRef, lambda ref: replace(ref, value=nothing), tree)

    func = (
        operation.func
        if isinstance(operation.func, torch._ops.OpOverload)
        else Escape(str(type(operation.func)))
    )
    return Operation(
        func, light(operation.args), light(operation.kwargs), light(operation.outputs), operation.path, ""
    )


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
            return self.system.parameter(ref.key, self.recording.shapes[ref.key])
        return Labels(zero=self.recording.constants.get(ref.key) == 0)

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
