"""In-place writes: tensors that share memory see each other's nodes."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from graph_metanetworks.graph.elements import Elements
from graph_metanetworks.trace.interpret import binding, wiring
from graph_metanetworks.trace.interpret.labels import NOTHING, canonical, compact, pattern
from graph_metanetworks.trace.interpret.value import Role, Value
from graph_metanetworks.trace.record.tape import TensorRef

if TYPE_CHECKING:
    from graph_metanetworks.trace.interpret.interpreter import Call


class Memory:
    """The writes into each storage, in order; a tensor catches up on missed writes when it is read."""

    def __init__(self):
        self._writes: dict[int, list[tuple[TensorRef, Value]]] = defaultdict(list)
        self._known: dict[int, int] = {}  # how many writes of its storage a tensor has seen

    def up_to_date(self, ref: TensorRef) -> None:
        """Record that the tensor was just made or written."""
        self._known[ref.key] = len(self._writes[ref.storage])

    def write(self, ref: TensorRef, old: Value, new: Value) -> None:
        if old.role != new.role or not _same_labels(old.labels, new.labels):
            self._writes[ref.storage].append((ref, new))
        self.up_to_date(ref)

    def read(self, ref: TensorRef, value: Value) -> Value:
        """Return the value of a tensor after the writes that it has missed."""
        for written, new in self._writes[ref.storage][self._known[ref.key] :]:
            if _layout(ref) == _layout(written):
                value = replace(new, dims=value.dims)
                continue
            place = common_places(written, ref)
            if place is not None:
                value = _seen_through(value, new, ref, place)
        self.up_to_date(ref)
        return value


def _same_labels(first: list[Tensor], second: list[Tensor]) -> bool:
    return len(first) == len(second) and all(
        pattern(a) == pattern(b) and torch.equal(compact(a, pattern(a)), compact(b, pattern(b)))
        for a, b in zip(first, second, strict=True)
    )


def _layout(ref: TensorRef) -> tuple:
    return ref.shape, ref.strides, ref.offset


def common_places(written: TensorRef, other: TensorRef) -> Tensor | None:
    """Map each place of `other` to the place of `written` at the same address, or NOTHING.

    None if they are disjoint.
    """
    address, theirs = _addresses(written), _addresses(other)
    if not address.numel() or not theirs.numel():
        return None
    low = min(int(address.min()), int(theirs.min()))
    high = max(int(address.max()), int(theirs.max()))
    memory = torch.full((high - low + 1,), NOTHING, dtype=torch.int64, device="cpu")
    memory[address.reshape(-1) - low] = torch.arange(address.numel(), device="cpu")
    place = memory[theirs - low]
    return place if bool((place != NOTHING).any()) else None


def _addresses(ref: TensorRef) -> Tensor:
    return Elements(ref.shape, ref.offset, ref.strides).index()


def _seen_through(value: Value, new: Value, ref: TensorRef, place: Tensor) -> Value:
    """Return what another view shows after a write into memory that it shares."""
    nothing = torch.tensor(NOTHING, device="cpu")
    old = value.labels or [nothing]
    fresh = [label.reshape(-1)[place.clamp(min=0)] for label in new.labels] or [nothing]
    labels = [
        canonical(torch.where(place == NOTHING, was.expand(ref.shape), now))
        for was, now in zip_longest(old, fresh, fillvalue=nothing)
    ]
    labels = labels if value.labels or new.labels else []
    role = max(value.role, new.role)
    mixed = value.parameters | new.parameters if role == Role.WEIGHT else frozenset()
    behind = None if labels else wiring.nodes_behind(value, new)
    return Value(role, value.dims, labels=labels, mixed=mixed, behind=behind)


def viewed_in_place(call: Call) -> Value:
    """Handle `transpose_`, `squeeze_` and the like: the same memory with its dimensions in another order."""
    old: TensorRef = call["self"]
    new = call.out
    value = call.value(old)

    def signature(ref: TensorRef) -> list[tuple[int, int]]:
        return [(n, s if n > 1 else 0) for n, s in zip(ref.shape, ref.strides, strict=True)]

    remaining = list(enumerate(signature(old)))
    order = []
    for wanted in signature(new):
        match = next((i for i, have in remaining if have == wanted), None)
        if match is None and wanted[0] == 1:
            order.append(None)
            continue
        if match is None:
            return binding.opaque(call)[0]
        remaining = [(i, have) for i, have in remaining if i != match]
        order.append(match)
    if old.offset != new.offset or any(length != 1 for _, (length, _) in remaining):
        return binding.opaque(call)[0]
    kept = [i for i in order if i is not None]
    dims = [[] if i is None else value.dims[i] for i in order]
    drop = [i for i, _ in remaining]
    return value.moved(dims, lambda label: label.permute(kept + drop).reshape(new.shape))
