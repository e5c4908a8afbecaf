"""Features on a regular grid, interpolated bilinearly, before a perceptron."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from graph_metanetworks.zoo.inr.conventions import Conventions
from graph_metanetworks.zoo.inr.encoded import EncodedArchitecture, EncodedInr, Features, interpolated


@dataclass(frozen=True, slots=True)
class GridArchitecture(EncodedArchitecture):
    """A plane of `channels` features with `height` x `width` sites."""

    kind: ClassVar[str] = "grid"

    channels: int
    height: int
    width: int

    @classmethod
    def for_images(cls, outputs: int, hidden: int, layers: int, size: tuple[int, int]) -> GridArchitecture:
        """Choose a plane with two thirds as many sites along each axis as there are pixels."""
        height, width = (-(-2 * length // 3) for length in size)
        return cls(2, outputs, hidden, layers, channels=4, height=height, width=width)

    @property
    def features(self) -> int:
        return self.channels

    def build(self, conventions: Conventions) -> GridInr:
        return GridInr(self, conventions)


class GridInr(EncodedInr):
    """A perceptron of features that are looked up on a plane. Outside of the image its edge is continued.

    >>> architecture = GridArchitecture.for_images(3, hidden=32, layers=2, size=(28, 28))
    >>> network = architecture.build(Conventions())
    >>> network(torch.zeros(5, 2)).shape, network.plane.shape
    (torch.Size([5, 3]), torch.Size([1, 4, 19, 19]))
    """

    def __init__(self, architecture: GridArchitecture, conventions: Conventions) -> None:
        super().__init__(architecture, conventions)
        sites = architecture.height, architecture.width
        self.plane = nn.Parameter(0.1 * torch.randn(1, architecture.channels, *sites))

    def encode(self, coordinates: Tensor) -> Tensor:
        return self._look_up(self.plane, coordinates)

    def stacked_encoder(self, coordinates: Tensor, buffers: Mapping[str, Tensor]) -> Features:
        sites = self.plane[0, 0].numel()
        one_hot = torch.eye(sites, dtype=coordinates.dtype).view(1, sites, *self.plane.shape[2:])
        weights = self._look_up(one_hot, coordinates)  # [points, sites]
        return lambda parameters: interpolated(weights, parameters["plane"].flatten(3).squeeze(1).mT)

    def _look_up(self, plane: Tensor, coordinates: Tensor) -> Tensor:
        """Interpolate `plane` [1, channels, height, width] at the coordinates: [points, channels]."""
        where = 2 * self.conventions.to_unit_square(coordinates) - 1
        found = functional.grid_sample(plane, where[None, :, None], padding_mode="border", align_corners=True)
        return found[0, :, :, 0].T
