"""Multi-resolution hash grids before a perceptron (Instant-NGP, https://arxiv.org/abs/2201.05989)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from graph_metanetworks.zoo.inr.conventions import Conventions
from graph_metanetworks.zoo.inr.encoded import EncodedArchitecture, EncodedInr, Features, interpolated

PRIME = 2_654_435_761  # of the second coordinate; that of the first is 1


@dataclass(frozen=True, slots=True)
class HashArchitecture(EncodedArchitecture):
    """Grids of `resolutions` cells along each axis, with at most `entries` corners each in a table.

    Corners of finer grids share entries by their hash.
    """

    kind: ClassVar[str] = "hash"

    channels: int  # of an entry
    entries: int
    resolutions: tuple[int, ...]

    @classmethod
    def for_images(cls, outputs: int, hidden: int, layers: int, size: tuple[int, int]) -> HashArchitecture:
        """Choose four levels, up to the resolution of the pixels, and about a third as many entries."""
        finest = max(size) - 1
        resolutions = tuple(max(1, finest * number // 8) for number in (1, 2, 4, 8))
        entries = 2 ** round(math.log2(size[0] * size[1] / 3))
        return cls(2, outputs, hidden, layers, channels=4, entries=entries, resolutions=resolutions)

    @property
    def features(self) -> int:
        return self.channels * len(self.resolutions)

    def build(self, conventions: Conventions) -> HashInr:
        return HashInr(self, conventions)


class HashInr(EncodedInr):
    """A perceptron of features that are looked up at the hashed corners of ever finer grids.

    >>> architecture = HashArchitecture.for_images(3, hidden=32, layers=2, size=(28, 28))
    >>> network = architecture.build(Conventions())
    >>> network(torch.zeros(5, 2)).shape, [len(table) for table in network.tables]
    (torch.Size([5, 3]), [16, 49, 196, 256])
    """

    corners: Tensor  # [4, 2]

    def __init__(self, architecture: HashArchitecture, conventions: Conventions) -> None:
        super().__init__(architecture, conventions)
        self.resolutions = architecture.resolutions
        sizes = [min((resolution + 1) ** 2, architecture.entries) for resolution in self.resolutions]
        self.tables = nn.ParameterList(0.1 * torch.randn(size, architecture.channels) for size in sizes)
        zero_one = torch.arange(2)
        self.register_buffer("corners", torch.cartesian_prod(zero_one, zero_one), persistent=False)

    def encode(self, coordinates: Tensor) -> Tensor:
        levels = zip(self.tables, self.resolutions, strict=True)
        return torch.cat([self._look_up(table, resolution, coordinates) for table, resolution in levels], -1)

    def stacked_encoder(self, coordinates: Tensor, buffers: Mapping[str, Tensor]) -> Features:
        weights = [  # [points, entries] each
            self._look_up(torch.eye(len(table), dtype=coordinates.dtype), resolution, coordinates)
            for table, resolution in zip(self.tables, self.resolutions, strict=True)
        ]

        def features(parameters: Mapping[str, Tensor]) -> Tensor:
            tables = (parameters[f"tables.{level}"] for level in range(len(weights)))
            return torch.cat([interpolated(*pair) for pair in zip(weights, tables, strict=True)], dim=-1)

        return features

    def _look_up(self, table: Tensor, resolution: int, coordinates: Tensor) -> Tensor:
        """Interpolate the entries of the four corners around each point: [points, channels]."""
        scaled = resolution * self.conventions.to_unit_square(coordinates)[:, None]  # [points, 1, 2]
        below = scaled.floor()
        near = scaled - below
        weight = torch.where(self.corners == 1, near, 1 - near).prod(dim=-1, keepdim=True)
        entry = self._entry(below.long() + self.corners, resolution, len(table))  # [points, 4]
        return (weight * table[entry]).sum(dim=1)

    @staticmethod
    def _entry(corner: Tensor, resolution: int, entries: int) -> Tensor:  # integers [..., 2] -> [...]
        """Return the entry of a corner: its number if all corners have entries of their own, or its hash."""
        x, y = corner.unbind(-1)
        if (resolution + 1) ** 2 <= entries:
            return (x + (resolution + 1) * y) % entries
        return (x ^ (PRIME * y)) % entries
