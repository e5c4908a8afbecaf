"""In-place writes: tensors that share memory see each other's nodes."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from graph_metanetworks.elements import contiguous_strides
from graph_metanetworks.trace import binding
from graph_metanetworks.trace.labels import NOTHING, canonical
from graph_metanetworks.trace.tape import TensorRef
from graph_metanetworks.trace.value import Role, Value

if TYPE_CHECKING:
    from graph_metanetworks.trace.interpreter import Call


class Memory:
    """Which tensors lie in which storage."""

    def __init__(self):
        self._tensors: dict[int, dict[int, TensorRef]] = defaultdict(dict)

    def add(self, ref: TensorRef) -> None:
        self._tensors[ref.storage].setdefault(ref.key, ref)

    def share(self, written: TensorRef, old: Value, values: dict[int, Value]) -> None:
        """After a write, give the new nodes to every other view of the same memory."""
        new = values[written.key]
        unchanged = len(old.labels) == len(new.labels) and all(
            a is b for a, b in zip(old.labels, new.labels, strict=True)
        )
        if unchanged and old.role == new.role:
            return
        for key, other in self._tensors[written.storage].items():
            if key != written.key and key in values:
                values[key] = replace(
                    values[key],
                    role=max(values[key].role, new.role),
                    labels=[
                        label
                        for label in (
                            _seen_from(other, values[key], written, fresh) for fresh in new.labels
                        )
                        if label is not None
                    ],
                    views=[],
                    mixed=values[key].parameters | new.parameters
                    if new.role == Role.WEIGHT
                    else frozenset(),
                )


def _seen_from(
    other: TensorRef, value: Value, written: TensorRef, fresh: Tensor
) -> Tensor | None:
    """The label of `other` after `fresh` was written into the part of memory that `written` shows."""
    if 0 in other.shape:
        return None
    if _is_dense(written):
        inside = _window(fresh.contiguous(), other, other.offset - written.offset)
        if inside is not None:
            return canonical(inside)
    if not _is_dense(other):
        return None
    base = value.labels[0] if value.labels else torch.tensor(NOTHING, device="cpu")
    whole = base.expand(other.shape).contiguous().clone()
    window = _window(whole, written, written.offset - other.offset)
    if window is None:
        return None
    window.copy_(fresh)
    return canonical(whole)


def _window(dense: Tensor, part: TensorRef, offset: int) -> Tensor | None:
    """The places of `part` within a contiguous tensor, if they lie inside it."""
    last = offset + sum((n - 1) * s for n, s in zip(part.shape, part.strides, strict=True))
    if offset < 0 or last >= dense.numel():
        return None
    return dense.as_strided(part.shape, part.strides, offset)


def _is_dense(ref: TensorRef) -> bool:
    expected = contiguous_strides(ref.shape)
    return all(
        n == 1 or s == e for n, s, e in zip(ref.shape, ref.strides, expected, strict=True)
    )


def viewed_in_place(call: Call) -> Value:
    """`transpose_`, `squeeze_` and the like: the same memory with its dimensions in another order."""
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
