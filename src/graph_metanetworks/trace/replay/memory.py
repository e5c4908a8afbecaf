"""How the memory of a recording is written, so that it can be run on weights and inputs that stay unchanged.

Under `torch.func.vmap` a tensor that is the same for all networks (a buffer of zeros, say) cannot be written
with values that differ between them. Such memory is *spread*: given the batch dimensions when it is made,
before any view of it exists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor
from torch._ops import OpOverload

from graph_metanetworks.graph.elements import Elements
from graph_metanetworks.trace.interpret.memory import common_places
from graph_metanetworks.trace.record.operation import Operation, TensorRef, refs, written_arguments

Sources = frozenset[str]  # "weights", "inputs" or both
LARGEST = 1_000_000  # elements of tensors whose places in memory are compared
RUNNING_STATISTICS = ("running_mean", "running_var")


def all_writes(operation: Operation) -> list[TensorRef]:
    """Return the tensors that an operation changes in place, including those given as `out=`."""
    if not isinstance(operation.func, OpOverload):
        return []
    written = written_arguments(operation.func, operation.args, operation.kwargs)
    if operation.func._schema.name == "aten::native_batch_norm" and operation.arguments["training"]:
        # it updates the running statistics, although its schema does not say so
        written += refs([operation.arguments[name] for name in RUNNING_STATISTICS])
    return written


@dataclass(frozen=True)
class Memory:
    """Which storages are written in place, and on what they depend."""

    written: frozenset[int]  # others are written by functions that return a new tensor
    spread: frozenset[int]
    sources: tuple[Sources, ...]  # of the inputs of each operation, when it runs


def analyse(
    operations: Sequence[Operation], given: Mapping[int, Sources], last_use: Mapping[int, int]
) -> Memory:
    """Follow dependence on weights and inputs through memory.

    `given` has the sources of tensors by key, `last_use` the last operation after which a tensor is needed.
    """
    at_birth: dict[int, Sources] = {}
    now: dict[int, Sources] = {}
    by_writes: dict[int, Sources] = {}

    def known(ref: TensorRef) -> Sources:
        if ref.storage not in now or ref.key in given:
            own = given.get(ref.key, frozenset())
            at_birth[ref.storage] = at_birth.get(ref.storage, own) & own
            now[ref.storage] = now.get(ref.storage, frozenset()) | own
        return now[ref.storage]

    reads = []
    for operation in operations:
        sources = frozenset().union(*(known(ref) for ref in operation.inputs))
        reads.append(sources)
        for ref in all_writes(operation):
            by_writes[ref.storage] = by_writes.get(ref.storage, frozenset()) | sources
            now[ref.storage] |= sources
        for ref in refs(operation.outputs):
            if ref.storage not in now:
                at_birth[ref.storage] = now[ref.storage] = sources
    written = _written_in_place(operations, last_use)
    spread = frozenset(storage for storage in written if by_writes[storage] - at_birth[storage])
    return Memory(written, spread, tuple(reads))


def _written_in_place(operations: Sequence[Operation], last_use: Mapping[int, int]) -> frozenset[int]:
    """Return the storages with a write that another tensor sees, or that has no functional form."""
    first_seen: dict[int, int] = {}
    members: dict[int, dict[int, TensorRef]] = {}  # tensors by storage and key
    for number, operation in enumerate(operations):
        for before, some in ((number - 1, operation.inputs), (number, refs(operation.outputs))):
            for ref in some:
                first_seen.setdefault(ref.key, before)
                members.setdefault(ref.storage, {})[ref.key] = ref
    found = set()
    for number, operation in enumerate(operations):
        for ref in all_writes(operation):
            others = [other for other in members[ref.storage].values() if other.key != ref.key]
            is_seen = any(
                first_seen[other.key] < number < last_use.get(other.key, -1) and _overlap(ref, other)
                for other in others
            )
            if is_seen or functional_form(operation) is None:
                found.add(ref.storage)
    return frozenset(found)


def _overlap(first: TensorRef, second: TensorRef) -> bool:
    """Return whether two tensors of one storage share memory; true if that takes long to find out."""
    if not first.strides or not second.strides or max(prod(first.shape), prod(second.shape)) > LARGEST:
        return True
    return common_places(first, second) is not None


def functional_form(operation: Operation) -> OpOverload | None:
    """Return the overload that gives the result of an in-place operation as a new tensor."""
    func = operation.func
    namespace, _, name = func._schema.name.partition("::")
    packet = getattr(getattr(torch.ops, namespace), name.removesuffix("_"), None)
    if not name.endswith("_") or len(all_writes(operation)) != 1 or packet is None:
        return None
    overloads = [getattr(packet, overload) for overload in packet.overloads()]
    return next((found for found in overloads if _arguments(found) == _arguments(func)), None)


def _arguments(func: OpOverload) -> list[tuple[str, str]]:
    return [(argument.name, str(argument.type)) for argument in func._schema.arguments]


def strided_index(operation: Operation) -> Tensor:
    """Return the element of its argument that `as_strided` shows at each place; -1 for other memory."""
    (source,), arguments = operation.inputs, operation.arguments
    offset = source.offset if arguments["storage_offset"] is None else arguments["storage_offset"]
    shown = Elements(tuple(arguments["size"]), offset, tuple(arguments["stride"])).index()
    places = Elements(source.shape, source.offset, source.strides).index().reshape(-1)
    element = torch.full((1 + max(int(shown.max()), int(places.max())),), -1, dtype=torch.int64, device="cpu")
    element[places] = torch.arange(places.numel(), device="cpu")
    return element[shown]
