"""Label tensors: which node, or which element of a parameter, stands at each place of a tensor.

A label is an integer tensor of the tensor's shape with stride 0 along dimensions it does not vary on,
so that a million activations of 64 channels need 64 integers. View-like operations simply run on
labels. Labels of parameter elements start as meta tensors, whose strides alone say which element stands
where; they get values only if an operation other than a view touches them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from graph_metanetworks.graph.elements import Elements
from graph_metanetworks.trace.interpret.size_limit import check_size

NOTHING = -1  # the label of positions without a node
KEPT_ALIVE = 1 << 20  # bytes; a label that is a small part of more memory is copied


def varies(label: Tensor, dim: int) -> bool:
    return label.size(dim) > 1 and label.stride(dim) != 0


def pattern(label: Tensor) -> set[int]:
    """Return the dimensions along which a label varies."""
    return {dim for dim in range(label.dim()) if varies(label, dim)}


def canonical(label: Tensor) -> Tensor:
    """Return the same label with stride 0 wherever it is constant."""
    if label.device.type == "meta":
        return label
    shape = label.shape
    small = compact(label, pattern(label))
    for dim in pattern(small):
        first = small.narrow(dim, 0, 1)
        if bool((first == small).all()):
            small = first
    if small.untyped_storage().nbytes() > max(KEPT_ALIVE, 2 * small.nbytes):
        small = small.clone()
    return small.expand(shape)


def reshaped(label: Tensor, shape: Sequence[int]) -> Tensor:
    """Return the label viewed with another shape; what it does not vary along is not written out.

    >>> label = torch.arange(3).view(1, 1, 3).expand(1000, 2, 3)        # 3 channels
    >>> reshaped(label, (1000, 6)).untyped_storage().nbytes() // 8      # 2 x 3, not 1000 x 2 x 3
    6
    """
    if label.device.type == "meta":
        return label.reshape(tuple(shape))
    keep, lengths = set(), list(shape)
    for old, new in _blocks(label.shape, shape):
        if any(varies(label, dim) for dim in old):
            keep |= set(old)
        else:
            lengths[new.start : new.stop] = [1] * len(new)
    check_size(lengths)
    return compact(label, keep).reshape(lengths).expand(tuple(shape))


def _blocks(old: Sequence[int], new: Sequence[int]) -> Iterator[tuple[range, range]]:
    """Yield ranges of dimensions of two shapes that hold the same elements, as short as possible."""
    i = j = 0
    while i < len(old) or j < len(new):
        first, ours, theirs = (i, j), prod(old[i : i + 1]), prod(new[j : j + 1])
        i, j = min(i + 1, len(old)), min(j + 1, len(new))
        while ours != theirs:
            if ours < theirs:
                ours, i = ours * old[i], i + 1
            else:
                theirs, j = theirs * new[j], j + 1
        yield range(first[0], i), range(first[1], j)


def compact(label: Tensor, keep: Iterable[int]) -> Tensor:
    """Return the label with size 1 along every dimension not in `keep`."""
    keep = set(keep)
    return label[tuple(slice(None) if d in keep else slice(0, 1) for d in range(label.dim()))]


def laid_together(labels: Sequence[Tensor], *dims: int) -> list[Tensor]:
    """Return labels of equal shape, or equal but for `dims`, without the size of what none varies along."""
    keep = set(dims).union(*map(pattern, labels))
    return [compact(label, keep) for label in labels]


def number_sets(label: Tensor, dim: int) -> Tensor:
    """Number the distinct sets of nodes that a label has along a dimension; the result has size 1 there."""
    small = compact(label, pattern(label)).movedim(dim, -1)
    _, number = small.reshape(-1, small.size(-1)).unique(dim=0, return_inverse=True)
    return number.view(small.shape[:-1]).unsqueeze(dim)


def lay_along(values: Tensor, dim: int, ndim: int) -> Tensor:
    """Lay a vector along one of `ndim` dimensions, with size 1 along the others."""
    return values.view([-1 if i == dim else 1 for i in range(ndim)])


def pairs(first: Tensor, second: Tensor) -> Tensor:
    """Return the distinct pairs of two labels of equal shape. [2, n]"""
    keep = pattern(first) | pattern(second)
    left, right = torch.broadcast_tensors(compact(first, keep), compact(second, keep))
    check_size(left.shape)
    left, right = left.reshape(-1), right.reshape(-1)
    base = int(right.max()) + 2  # labels start at NOTHING
    combined = ((left + 1) * base + right + 1).unique()
    return torch.stack([combined // base - 1, combined % base - 1])


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """A parameter inside some tensor: which element is at each position (-1: none)."""

    parameter: str
    label: Tensor

    @staticmethod
    def whole(parameter: str, shape: Sequence[int]) -> View:
        return View(parameter, torch.empty(tuple(shape), dtype=torch.int64, device="meta"))

    def moved(self, operation: Callable[[Tensor], Tensor]) -> View:
        """Return the view after an operation that only moves elements."""
        return self.moved_all(lambda label: [operation(label)])[0]

    def moved_all(self, operation: Callable[[Tensor], Sequence[Tensor]]) -> list[View]:
        label = self.label
        results = operation(label)
        if label.device.type == "meta" and not all(_shares_memory(label, r) for r in results):
            results = operation(self.dense())
        return [View(self.parameter, canonical(result)) for result in results]

    def dense(self) -> Tensor:
        if self.label.device.type != "meta":
            return self.label
        return self.elements().index()

    def along(self, dim: int) -> Tensor | None:
        """Return the elements along one dimension, at the first place where none is missing."""
        if self.label.device.type == "meta":
            steps = torch.arange(self.label.size(dim), device="cpu") * self.label.stride(dim)
            return steps + int(self.label.storage_offset())
        places = self.dense().movedim(dim, -1).reshape(-1, self.label.size(dim))
        complete = (places != NOTHING).all(dim=1)  # padding has no elements
        return places[int(complete.int().argmax())] if bool(complete.any()) else None

    def elements(self) -> Elements:
        label = self.label
        if label.device.type != "meta":
            return Elements(tuple(label.shape), listed=label)
        return Elements(tuple(label.shape), int(label.storage_offset()), tuple(label.stride()))

    def expand(self, shape: Sequence[int]) -> View:
        return View(self.parameter, self.label.expand(tuple(shape)))


def _shares_memory(first: Tensor, second: Tensor) -> bool:
    return first.untyped_storage()._cdata == second.untyped_storage()._cdata
