"""The tensors that a forward pass read but that are neither inputs, nor weights, nor results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import prod

import torch
from torch import Tensor

from graph_metanetworks.graph.elements import Elements, contiguous_strides
from graph_metanetworks.trace.interpret.labels import compact, pattern
from graph_metanetworks.trace.record.operation import Operation, TensorRef, refs
from graph_metanetworks.trace.replay.memory import all_writes

MOST_BYTES = 64 * 2**20  # of all constants of a graph
UNRECORDED = "shares memory with another tensor in a way that was not recorded"


@dataclass(frozen=True, slots=True)
class View:
    """A constant that shows elements of a weight or an input, such as a slice that was stored beforehand."""

    base: int
    elements: Elements


@dataclass(frozen=True, eq=False)
class Constants:
    """Constants by the key of their tensor."""

    values: dict[int, Tensor] = field(default_factory=dict)
    views: dict[int, View] = field(default_factory=dict)
    same: dict[int, int] = field(default_factory=dict)  # another tensor object with the same memory
    missing: dict[int, str] = field(default_factory=dict)  # why a tensor is not known

    @property
    def nbytes(self) -> int:
        distinct = {id(value): value for value in self.values.values()}
        return sum(_memory(value) for value in distinct.values())


def collect(
    operations: Iterable[Operation],
    given: Mapping[int, TensorRef],
    held: Iterable[TensorRef],
    outputs: Iterable[TensorRef],
    originals: Mapping[int, Tensor],
) -> Constants:
    """Collect the constants of a forward pass.

    `given` are the weights and inputs, which come anew with every run. `held` are weights that are kept as
    well, for runs without them. `originals` are constants before they were written to.
    """
    operations = list(operations)
    written = {ref.storage for operation in operations for ref in all_writes(operation)}
    found = Constants()
    kept = _Kept()
    keys = {**given}
    owners: dict[int, list[TensorRef]] = {}
    for ref in given.values():
        owners.setdefault(ref.storage, []).append(ref)
    layouts = {_layout(ref): ref.key for ref in given.values()}
    made: set[int] = set()
    constants: set[int] = set()  # their storages

    def read(ref: TensorRef) -> None:
        if ref.key in keys:
            return
        keys[ref.key] = ref
        if _layout(ref) in layouts:
            found.same[ref.key] = layouts[_layout(ref)]
            return
        layouts[_layout(ref)] = ref.key
        shares = ref.storage in owners or ref.storage in constants
        if ref.storage in made or (ref.storage in written and shares):
            found.missing[ref.key] = UNRECORDED
        elif ref.storage in owners:
            _add_view(found, ref, owners[ref.storage])
        else:
            constants.add(ref.storage)
            kept.add(found, ref, originals.get(ref.key, ref.value))

    used = {ref.key for operation in operations for ref in operation.inputs}
    for ref in held:
        if ref.has_value and ref.key in used:
            kept.add(found, ref, ref.value)
    for operation in operations:
        for ref in operation.inputs:
            read(ref)
        for ref in refs(operation.outputs):
            keys[ref.key] = ref
            layouts[_layout(ref)] = ref.key
            if ref.storage not in owners and ref.storage not in constants:
                made.add(ref.storage)
    for ref in outputs:
        read(ref)
    return _within_limit(found)


def _within_limit(constants: Constants) -> Constants:
    """Forget constants that are too large: a graph is structure, and is sent to worker processes."""
    total = constants.nbytes
    if total <= MOST_BYTES:
        return constants
    why = (
        f"is one of the constants of {total / 2**20:,.0f} MB in all, more than the {MOST_BYTES // 2**20} MB "
        "that a graph keeps; register the large ones as buffers, so that they come with the state dict"
    )
    missing = {**constants.missing, **dict.fromkeys(constants.values, why)}
    return Constants({}, constants.views, constants.same, missing)


class _Kept:
    """Copies of constants, one for those that are equal, such as the masks of all layers."""

    def __init__(self) -> None:
        self._by_type: dict[tuple, list[Tensor]] = {}

    def add(self, found: Constants, ref: TensorRef, value: Tensor) -> None:
        if value.device.type == "meta":
            found.missing[ref.key] = (
                "is neither a weight nor an input, and has no values, because the network was traced on the "
                "meta device; trace it with real weights"
            )
            return
        value = value.detach()
        candidates = self._by_type.setdefault((ref.shape, ref.dtype, value.layout), [])
        known = next((other for other in candidates if _equal(other, value)), None)
        if known is None:
            known = _copied(value)
            candidates.append(known)
        found.values[ref.key] = known


def _equal(first: Tensor, second: Tensor) -> bool:
    strided = first.layout == second.layout == torch.strided
    return strided and first.stride() == second.stride() and torch.equal(first, second)


def _copied(value: Tensor) -> Tensor:
    """Copy a tensor, with one entry along dimensions that it was expanded along."""
    if value.layout != torch.strided:
        return value.clone()
    return compact(value, pattern(value)).clone().expand(value.shape)


def _memory(value: Tensor) -> int:
    return value.untyped_storage().nbytes() if value.layout == torch.strided else value.numel() * 8


def _layout(ref: TensorRef) -> tuple:
    return ref.storage, ref.shape, ref.strides, ref.offset, ref.dtype


def _add_view(found: Constants, ref: TensorRef, owners: Iterable[TensorRef]) -> None:
    reach = sum(stride * (length - 1) for stride, length in zip(ref.strides, ref.shape, strict=True))
    for owner in owners:
        first = ref.offset - owner.offset
        contiguous = owner.strides == contiguous_strides(owner.shape) and owner.dtype == ref.dtype
        if contiguous and first >= 0 and first + reach < prod(owner.shape):
            found.views[ref.key] = View(owner.key, Elements(ref.shape, first, ref.strides))
            return
    found.missing[ref.key] = UNRECORDED
