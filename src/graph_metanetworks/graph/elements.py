"""The elements of a parameter that lie on the edges of a block."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Elements:
    """A strided view of the flattened parameter, or an explicit list of elements.

    >>> Elements((3, 2), offset=0, strides=(1, 3)).index().tolist()     # the transpose of a 2 x 3 matrix
    [[0, 3], [1, 4], [2, 5]]
    """

    shape: tuple[int, ...]
    offset: int = 0
    strides: tuple[int, ...] = ()
    listed: Tensor | None = None  # int64 of `shape`; overrides the strides

    @staticmethod
    def all_of(shape: tuple[int, ...]) -> Elements:
        """Return every element in its natural order, viewed with the given shape."""
        return Elements(shape, 0, contiguous_strides(shape))

    def span(self) -> tuple[int, int] | None:
        """Return the range `(start, stop)` if the elements are exactly those of a range, each once."""
        if self.listed is not None:
            return None
        step = 1
        for stride, length in sorted((s, n) for s, n in zip(self.strides, self.shape, strict=True) if n > 1):
            if stride != step:
                return None
            step *= length
        return self.offset, self.offset + step

    def index(self) -> Tensor:
        """Return the position in the flattened parameter of each element of the block."""
        if self.listed is not None:
            return self.listed
        index = torch.full((), self.offset, dtype=torch.int64, device="cpu")
        for dim, (length, stride) in enumerate(zip(self.shape, self.strides, strict=True)):
            if length > 1 and stride:  # an expanded dimension is not written out
                steps = torch.arange(length, device="cpu") * stride
                index = index + steps.view([-1 if i == dim else 1 for i in range(len(self.shape))])
        return index.expand(self.shape)

    def read(self, flat: Tensor) -> Tensor:
        """Gather values on the edges from the flattened parameter. `[n, ...] -> [edges, ...]`"""
        return self.view(flat).reshape(-1, *flat.shape[1:])

    def view(self, flat: Tensor) -> Tensor:
        """Like `read`, in the block's shape, a view where strides allow. `[n, ...] -> [*shape, ...]`"""
        if self.listed is not None:
            return flat[self.listed.to(flat.device)]
        return self._strided(flat)

    def write(self, flat: Tensor, values: Tensor) -> None:
        """Scatter values back in place into `flat`; the inverse of `read`."""
        if self.listed is not None:
            flat[self.listed.reshape(-1).to(flat.device)] = values
            return
        view = self._strided(flat)
        view.copy_(values.reshape(view.shape))

    def _strided(self, flat: Tensor) -> Tensor:
        step, *channels = flat.stride()
        return flat.as_strided(
            (*self.shape, *flat.shape[1:]),
            (*(stride * step for stride in self.strides), *channels),
            flat.storage_offset() + self.offset * step,
        )


def contiguous_strides(shape: tuple[int, ...] | torch.Size) -> tuple[int, ...]:
    strides, step = [], 1
    for length in reversed(shape):
        strides.append(step)
        step *= max(1, length)
    return tuple(reversed(strides))
