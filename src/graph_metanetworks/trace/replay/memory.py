"""How the memory of a recording is written, so that it can be run on weights and inputs that stay unchanged.

Under `torch.func.vmap` a tensor that is the same for all networks (a buffer of zeros, say) cannot be written
with values that differ between them. Such memory is *spread*: given the batch dimensions when it is made,
before any view of it exists.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch._ops import OpOverload

from graph_metanetworks.graph.elements import Elements
from graph_metanetworks.trace.record.tape import Operation, TensorRef, refs, written_arguments

Sources = frozenset[str]  # "weights", "inputs" or both
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
    """Which storages are written, and on what they depend."""

    written: frozenset[int]
    spread: frozenset[int]
    sources: tuple[Sources, ...]  # of the inputs of each operation, when it runs


def analyse(operations: Iterable[Operation], given: Mapping[int, Sources]) -> Memory:
    """Follow dependence on weights and inputs through memory; `given` has the sources of tensors by key."""
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
    spread = frozenset(storage for storage, sources in by_writes.items() if sources - at_birth[storage])
    return Memory(frozenset(by_writes), spread, tuple(reads))


def strided_index(operation: Operation) -> Tensor:
    """Return the element of its argument that `as_strided` shows at each place; -1 for memory outside of it."""
    (source,), arguments = operation.inputs, operation.arguments
    offset = source.offset if arguments["storage_offset"] is None else arguments["storage_offset"]
    shown = Elements(tuple(arguments["size"]), offset, tuple(arguments["stride"])).index()
    places = Elements(source.shape, source.offset, source.strides).index().reshape(-1)
    element = torch.full((1 + max(int(shown.max()), int(places.max())),), -1, dtype=torch.int64, device="cpu")
    element[places] = torch.arange(places.numel(), device="cpu")
    return element[shown]
