"""In-place writes: tensors that share memory see each other's nodes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise, zip_longest
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from graph_metanetworks.graph.elements import Elements
from graph_metanetworks.trace.interpret import binding, wiring
from graph_metanetworks.trace.interpret.labels import NOTHING, canonical, compact, pattern
from graph_metanetworks.trace.interpret.value import Role, Value
from graph_metanetworks.trace.record.operation import TensorRef

if TYPE_CHECKING:
    from graph_metanetworks.trace.interpret.interpreter import Call

Shape = tuple[int, ...]


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
            overwrite = _overlap(written, ref)
            if overwrite is not None:
                value = _seen_through(value, new, ref, overwrite, written.shape)
        self.up_to_date(ref)
        return value


def _same_labels(first: list[Tensor], second: list[Tensor]) -> bool:
    return len(first) == len(second) and all(
        pattern(a) == pattern(b) and torch.equal(compact(a, pattern(a)), compact(b, pattern(b)))
        for a, b in zip(first, second, strict=True)
    )


def _layout(ref: TensorRef) -> tuple:
    return ref.shape, ref.strides, ref.offset


Overwrite = Callable[[Tensor, Tensor], Tensor]  # (label of a tensor, label that was written), the new label


def _overlap(written: TensorRef, other: TensorRef) -> Overwrite | None:
    """Return how a write into one tensor changes labels of the other; None if they are disjoint."""
    if 0 in written.shape or 0 in other.shape:
        return None
    if _are_boxes(written, other):
        return _overlap_of_boxes(written, other)
    place = common_places(written, other)
    if place is None:
        return None

    def overwrite(was: Tensor, now: Tensor) -> Tensor:
        return torch.where(place == NOTHING, was, now.reshape(-1)[place.clamp(min=0)])

    return overwrite


def _are_boxes(written: TensorRef, other: TensorRef) -> bool:
    """Return whether two tensors are boxes in one grid: slices of the same tensor, say."""
    if written.ndim != other.ndim:
        return False
    grid = _grid(written, other)
    if any(stride <= 0 for _, stride in grid) or any(a % b for (_, a), (_, b) in pairwise(grid)):
        return False
    for ref in (written, other):
        corner = _corner(ref, grid)
        for (_, above), (dim, stride) in pairwise(grid):
            if corner[dim] + ref.shape[dim] > above // stride:  # it continues in the next row
                return False
    smallest = grid[-1][1] if grid else 1
    return written.offset % smallest == other.offset % smallest


def _grid(written: TensorRef, other: TensorRef) -> list[tuple[int, int]]:
    """Return the dimensions along which one of the tensors is longer than 1, and their strides, descending.

    A stride is 0 if the two differ.
    """
    grid = []
    for dim in range(other.ndim):
        strides = {ref.strides[dim] for ref in (written, other) if ref.shape[dim] > 1}
        if strides:
            grid.append((dim, strides.pop() if len(strides) == 1 else 0))
    return sorted(grid, key=lambda entry: -entry[1])


def _corner(ref: TensorRef, grid: list[tuple[int, int]]) -> dict[int, int]:
    corner, rest = {}, ref.offset
    for dim, stride in grid:
        corner[dim], rest = divmod(rest, stride)
    return corner


def _overlap_of_boxes(written: TensorRef, other: TensorRef) -> Overwrite | None:
    grid = _grid(written, other)
    if not grid:
        return (lambda was, now: now) if written.offset == other.offset else None
    source, target = ([slice(0, 1)] * other.ndim for _ in range(2))
    theirs, ours = _corner(written, grid), _corner(other, grid)
    partial = set()
    for dim, _ in grid:
        start = max(theirs[dim], ours[dim])
        stop = min(theirs[dim] + written.shape[dim], ours[dim] + other.shape[dim])
        if start >= stop:
            return None
        source[dim] = slice(start - theirs[dim], stop - theirs[dim])
        target[dim] = slice(start - ours[dim], stop - ours[dim])
        if stop - start < other.shape[dim]:
            partial.add(dim)

    def overwrite(was: Tensor, now: Tensor) -> Tensor:
        keep = partial | pattern(was) | pattern(now)  # elsewhere both are constant, and all is overwritten
        small = compact(was, keep).clone()
        into, of = ([s if d in keep else slice(0, 1) for d, s in enumerate(box)] for box in (target, source))
        small[tuple(into)] = now[tuple(of)]
        return small.expand(other.shape)

    return overwrite


def common_places(written: TensorRef, other: TensorRef) -> Tensor | None:
    """Map each place of `other` to the place of `written` at the same address, or NOTHING.

    None if they are disjoint.
    """
    address, theirs = _addresses(written), _addresses(other)
    low = min(int(address.min()), int(theirs.min()))
    high = max(int(address.max()), int(theirs.max()))
    memory = torch.full((high - low + 1,), NOTHING, dtype=torch.int64, device="cpu")
    memory[address.reshape(-1) - low] = torch.arange(address.numel(), device="cpu")
    place = memory[theirs - low]
    return place if bool((place != NOTHING).any()) else None


def _addresses(ref: TensorRef) -> Tensor:
    return Elements(ref.shape, ref.offset, ref.strides).index()


def _seen_through(value: Value, new: Value, ref: TensorRef, overwrite: Overwrite, shape: Shape) -> Value:
    """Return what another view shows after a write, of the given shape, into memory that it shares."""
    nothing = torch.tensor(NOTHING, device="cpu")
    labels = [
        canonical(overwrite(was.expand(ref.shape), now.expand(shape)))
        for was, now in zip_longest(value.labels or [nothing], new.labels or [nothing], fillvalue=nothing)
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
