"""Track which elements of a parameter have an owner, without a mask over all of them where possible."""

from __future__ import annotations

import torch
from torch import Tensor

from graph_metanetworks.graph.elements import Elements


class Coverage:
    """The elements covered so far, as ranges while every view is one and as a mask afterwards.

    >>> covered = Coverage(6)
    >>> covered.add(Elements((4,), 0, (1,))), covered.is_complete
    (None, False)
    >>> covered.add(Elements((3,), 3, (1,))), covered.is_complete       # element 3 was covered before
    (tensor([ True, False, False]), True)
    """

    def __init__(self, total: int):
        self.total = total
        self._ranges: list[tuple[int, int]] = []  # (start, stop), disjoint
        self._mask: Tensor | None = None

    @property
    def is_complete(self) -> bool:
        if self._mask is not None:
            return bool(self._mask.all())
        return sum(stop - start for start, stop in self._ranges) == self.total

    def add(self, elements: Elements) -> Tensor | None:
        """Cover elements; return which of them were covered before, or None if none was."""
        span = elements.span()
        if self._mask is None and span is not None:
            start, stop = span
            if all(stop <= a or b <= start for a, b in self._ranges):
                self._ranges.append(span)
                return None
            if any(a <= start and stop <= b for a, b in self._ranges):
                return torch.ones((), dtype=torch.bool, device="cpu").expand(stop - start)
        mask = self.mask()
        if elements.listed is None:  # a view of the mask avoids an index as large as the parameter
            view = mask.as_strided(elements.shape, elements.strides, elements.offset)
            old = view.flatten().clone() if bool(view.any()) else None
            view.fill_(True)
            return old
        index = elements.index().reshape(-1)
        index = index[index >= 0]
        old = mask[index]
        mask[index] = True
        return old if bool(old.any()) else None

    def mask(self) -> Tensor:
        """Return one truth value per element."""
        if self._mask is None:
            self._mask = torch.zeros(self.total, dtype=torch.bool, device="cpu")
            for start, stop in self._ranges:
                self._mask[start:stop] = True
        return self._mask
