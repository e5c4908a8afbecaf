"""Random Fourier features before a perceptron (Tancik et al., https://arxiv.org/abs/2006.10739)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from graph_metanetworks.zoo.inr.conventions import Conventions
from graph_metanetworks.zoo.inr.encoded import EncodedArchitecture, EncodedInr, Features


@dataclass(frozen=True, slots=True)
class FourierArchitecture(EncodedArchitecture):
    """Frequencies are drawn from N(0, deviation²), in cycles per unit of the coordinates, and stay fixed."""

    kind: ClassVar[str] = "fourier"

    frequencies: int
    deviation: float

    @classmethod
    def for_images(cls, outputs: int, hidden: int, layers: int, size: tuple[int, int]) -> FourierArchitecture:
        """Choose frequencies below those of the pixels."""
        return cls(2, outputs, hidden, layers, frequencies=32, deviation=max(size) / 14)

    @property
    def features(self) -> int:
        return 2 * self.frequencies

    def build(self, conventions: Conventions) -> FourierInr:
        return FourierInr(self, conventions)


class FourierInr(EncodedInr):
    """A perceptron of sines and cosines of random projections.

    >>> architecture = FourierArchitecture.for_images(3, hidden=32, layers=2, size=(28, 28))
    >>> architecture.build(Conventions())(torch.zeros(5, 2)).shape
    torch.Size([5, 3])
    """

    frequencies: Tensor  # [frequencies, inputs]

    def __init__(self, architecture: FourierArchitecture, conventions: Conventions) -> None:
        super().__init__(architecture, conventions)
        drawn = torch.randn(architecture.frequencies, architecture.inputs) * architecture.deviation
        self.register_buffer("frequencies", drawn)

    def encode(self, coordinates: Tensor) -> Tensor:
        angles = 2 * math.pi * functional.linear(coordinates, self.frequencies)
        return torch.cat((angles.sin(), angles.cos()), dim=-1)

    def stacked_encoder(self, coordinates: Tensor, buffers: Mapping[str, Tensor]) -> Features:
        angles = 2 * math.pi * (coordinates @ buffers["frequencies"].mT)
        features = torch.cat((angles.sin(), angles.cos()), dim=-1)
        return lambda parameters: features
