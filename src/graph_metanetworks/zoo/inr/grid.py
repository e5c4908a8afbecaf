"""The coordinates of a signal or an image, as sums of a row part and a column part.

The points of an image are all pairs of a row and a column. A signal can be cut into rows too: coarse steps
are the rows, and fine steps within them the columns. So the first layer of a SIREN, a sine of a sum, needs
only the sines of its rows and columns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from graph_metanetworks.zoo.inr.conventions import Conventions


@dataclass(frozen=True, eq=False)
class Grid:
    """Coordinates of points, row by row: `rows[p]` and `columns[q]` belong to point `p * len(columns) + q`.

    >>> make_grid(Conventions(), (2, 3)).coordinates.tolist()
    [[-1.0, -1.0], [-1.0, 0.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 0.0], [1.0, 1.0]]
    """

    rows: Tensor  # [rows]
    columns: Tensor  # [columns]
    coordinates: Tensor  # [points, inputs]: the input of an ordinary network
    inputs_of: tuple[int, int]  # the input that rows belong to, and the input of columns

    @property
    def num_points(self) -> int:
        return len(self.coordinates)


def make_grid(
    conventions: Conventions,
    size: int | Sequence[int] | None = None,
    *,
    dtype: torch.dtype = torch.float32,
) -> Grid:
    """Return the pixels of an image, row by row, or the points of a signal, by default at the fitted size."""
    axes = [_axis(points, conventions) for points in conventions.resolve_size(size)]
    if len(axes) == 1:
        return _signal_grid(axes[0], dtype)
    return _image_grid(axes[0], axes[1], conventions, dtype)


def _image_grid(rows: Tensor, columns: Tensor, conventions: Conventions, dtype: torch.dtype) -> Grid:
    y, x = torch.meshgrid(rows.to(dtype), columns.to(dtype), indexing="ij")
    inputs_of = conventions.order.index("y"), conventions.order.index("x")
    ordered = (y, x) if inputs_of == (0, 1) else (x, y)
    return Grid(rows.to(dtype), columns.to(dtype), torch.stack(ordered, dim=-1).view(-1, 2), inputs_of)


def _signal_grid(axis: Tensor, dtype: torch.dtype) -> Grid:
    width = _divisor_near_root(len(axis))
    rows, columns = axis[::width], axis[:width] - axis[0]
    return Grid(rows.to(dtype), columns.to(dtype), axis.to(dtype)[:, None], (0, 0))


def _axis(points: int, conventions: Conventions) -> Tensor:
    # in double precision, so that grids of all precisions agree up to rounding
    count = points if conventions.closed else points + 1
    return torch.linspace(conventions.start, conventions.stop, count, dtype=torch.float64)[:points]


def _divisor_near_root(number: int) -> int:
    """Return the smallest divisor that is at least the square root.

    >>> _divisor_near_root(2000), _divisor_near_root(7)
    (50, 7)
    """
    return number // next(d for d in range(math.isqrt(number), 0, -1) if number % d == 0)
