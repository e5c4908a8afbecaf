"""Find the integer, boolean and complex entries of a state dict that the output depends on.

Such tensors lie on no edge. Some only select elements (an index of relative positions); others are weights (a
quantised matrix, a mask), which a metanetwork would need to see.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from torch import Tensor, nn

from graph_metanetworks.trace.record.operation import Escape, Operation, TensorRef, refs
from graph_metanetworks.trace.record.tape import Tape

SELECTING = {"index", "indices", "offsets"}  # arguments of ATen operations that only select elements


def read_entries(
    entries: Mapping[str, Tensor], tape: Tape, operations: Iterable[Operation], outputs: Iterable[Tensor]
) -> frozenset[str]:
    """Return the entries that an operation reads or the network returns.

    A declared module counts as reading all of its own entries.
    """
    read = {tape.ref(tensor).storage for tensor in outputs}
    for operation in operations:
        read |= {ref.storage for ref in operation.inputs}
        if isinstance(operation.func, nn.Module):
            own = (*operation.func.parameters(), *operation.func.buffers())
            read |= {tape.ref(tensor).storage for tensor in own}
    return frozenset(name for name, tensor in entries.items() if tape.ref(tensor).storage in read)


def weight_entries(
    entries: Mapping[str, Tensor], tape: Tape, operations: Iterable[Operation]
) -> frozenset[str]:
    """Return the entries whose values enter arithmetic with floating-point results."""
    names: dict[int, set[str]] = defaultdict(set)  # entries behind the values in each storage
    for name, tensor in entries.items():
        names[tape.ref(tensor).storage].add(name)
    found: set[str] = set()
    for operation in operations:
        behind = set().union(*(names[ref.storage] for ref in _values(operation)))
        results = refs(operation.outputs) + operation.writes
        if any(ref.dtype.is_floating_point or ref.dtype.is_complex for ref in results):
            found |= behind
            continue
        for ref in results:
            names[ref.storage] |= behind
    return frozenset(found)


def _values(operation: Operation) -> list[TensorRef]:
    """Return the tensors that an operation computes with, without those that only select elements."""
    if isinstance(operation.func, nn.Module | Escape):
        return []
    return refs([value for name, value in operation.arguments.items() if name not in SELECTING])
