"""Sparse parameters: tables of features on the occupied cells of an octree (NGLOD, arXiv:2101.10994)."""

from __future__ import annotations

from functools import partial
from itertools import pairwise, product

import torch
from torch import Tensor, nn

from .architecture import architecture
from .grid import decoder
from .inputs import inputs, uniform

octree = partial(architecture, family="grid", example=inputs(uniform(15, 3)))

Cell = tuple[int, int, int]
OCTANTS = tuple(product((0, 1), repeat=3))
RADIUS = 0.35  # of the sphere whose surface the cells must cover


def occupied(depth: int) -> list[list[Cell]]:
    """Return the cells of each level that the sphere around the centre of the unit cube passes through."""

    def cut(cell: Cell, level: int) -> bool:
        spans = [sorted((abs(c / 2**level - 0.5), abs((c + 1) / 2**level - 0.5))) for c in cell]
        nearest = [0.0 if level == 0 else low for low, _ in spans]
        return sum(x * x for x in nearest) <= RADIUS**2 <= sum(high * high for _, high in spans)

    return [
        [cell for cell in product(range(2**level), repeat=3) if cut(cell, level)] for level in range(depth)
    ]


def places(cells: list[Cell], wanted: list[Cell]) -> list[int]:
    """Return the number of each wanted cell, or `len(cells)` if it is empty."""
    numbers = {cell: number for number, cell in enumerate(cells)}
    return [numbers.get(cell, len(cells)) for cell in wanted]


def parts(cell: Cell, scale: int) -> list[Cell]:
    """Return the children of a cell (`scale` 2) or its corners (`scale` 1)."""
    return [(scale * cell[0] + x, scale * cell[1] + y, scale * cell[2] + z) for x, y, z in OCTANTS]


class Octree(nn.Module):
    """The cells that contain a point, below the root. Beyond the last occupied one they are "empty"."""

    octants: Tensor

    def __init__(self, depth: int) -> None:
        super().__init__()
        root, *self.cells = occupied(depth)
        octants = torch.tensor(OCTANTS)
        self.register_buffer("octants", octants, persistent=False)
        for level, (cells, finer) in enumerate(pairwise([root, *self.cells])):
            children = [places(finer, parts(cell, 2)) for cell in cells] + [[len(finer)] * 8]
            self.register_buffer(f"children{level}", torch.tensor(children), persistent=False)

    def path(self, position: Tensor) -> list[Tensor]:  # [B, 3] in [0, 1) -> [B] per level
        """Descend from the root by table lookups."""
        cell = torch.zeros(len(position), dtype=torch.long)
        found = []
        for level in range(len(self.cells)):
            x, y, z = (position * 2 ** (level + 1)).long().remainder(2).unbind(-1)
            cell = self.get_buffer(f"children{level}")[cell, 4 * x + 2 * y + z]
            found.append(cell)
        return found


@octree("octree-corners")
class OctreeCorners(Octree):
    """Features at the corners of cells, shared by neighbours, interpolated, and summed over the levels."""

    def __init__(self, features: int = 6) -> None:
        super().__init__(depth=3)
        self.tables = nn.ParameterList()
        for level, cells in enumerate(self.cells):
            corners = sorted({corner for cell in cells for corner in parts(cell, 1)})
            of_cells = [places(corners, parts(cell, 1)) for cell in cells] + [[0] * 8]
            self.register_buffer(f"corners{level}", torch.tensor(of_cells), persistent=False)
            self.tables.append(nn.Parameter(torch.randn(len(corners), features)))
        self.decoder = decoder(3 + features)

    def forward(self, position: Tensor) -> Tensor:  # [B, 3] in [0, 1) -> [B, 3]
        levels = []
        for level, (table, cell) in enumerate(zip(self.tables, self.path(position), strict=True)):
            near = (position * 2 ** (level + 1)).frac()[:, None]
            weight = torch.where(self.octants == 1, near, 1 - near).prod(dim=-1)  # [B, 8]
            weight = weight * (cell < len(self.cells[level]))[:, None]
            features = table[self.get_buffer(f"corners{level}")[cell]]  # [B, 8, features]
            levels.append((weight[..., None] * features).sum(dim=1))
        return self.decoder(torch.cat([position, torch.stack(levels).sum(dim=0)], dim=-1))


@octree("octree-cells")
class OctreeCells(Octree):
    """Features of whole cells, with one entry for the empty space of each level, concatenated."""

    def __init__(self, features: int = 3) -> None:
        super().__init__(depth=4)
        self.tables = nn.ModuleList(nn.Embedding(len(cells) + 1, features) for cells in self.cells)
        self.decoder = decoder(features * len(self.cells))

    def forward(self, position: Tensor) -> Tensor:  # [B, 3] in [0, 1) -> [B, 3]
        found = [table(cell) for table, cell in zip(self.tables, self.path(position), strict=True)]
        return self.decoder(torch.cat(found, dim=-1))
