"""INRs that encode a coordinate and decode the features by a multilayer perceptron."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from torch import Tensor, nn

from graph_metanetworks.zoo.inr.conventions import Conventions

Features = Callable[[Mapping[str, Tensor]], Tensor]  # stacked parameters -> [G, points, features]


@dataclass(frozen=True, slots=True)
class EncodedArchitecture(ABC):
    """The sizes of an encoding and of the perceptron that decodes it."""

    kind: ClassVar[str]

    inputs: int
    outputs: int
    hidden: int
    layers: int  # hidden layers of the perceptron

    def __post_init__(self) -> None:
        for name in ("inputs", "outputs", "hidden", "layers"):
            if getattr(self, name) < 1:
                raise ValueError(
                    f"{name} of an INR of kind {self.kind} must be at least 1, not {getattr(self, name)}"
                )

    @property
    @abstractmethod
    def features(self) -> int:
        """The number of features that the perceptron reads."""

    @abstractmethod
    def build(self, conventions: Conventions) -> EncodedInr:
        """Build an untrained network."""


class EncodedInr(nn.Module, ABC):
    """A network from coordinates [points, inputs] to values [points, outputs], by way of features."""

    def __init__(self, architecture: EncodedArchitecture, conventions: Conventions) -> None:
        super().__init__()
        self.conventions = conventions
        widths = [architecture.features, *[architecture.hidden] * architecture.layers]
        hidden = [
            layer for fan_in, fan_out in pairwise(widths) for layer in (nn.Linear(fan_in, fan_out), nn.ReLU())
        ]
        self.decoder = nn.Sequential(*hidden, nn.Linear(widths[-1], architecture.outputs))

    @abstractmethod
    def encode(self, coordinates: Tensor) -> Tensor:
        """Return the features of coordinates, [points, features]."""

    @abstractmethod
    def stacked_encoder(self, coordinates: Tensor, buffers: Mapping[str, Tensor]) -> Features:
        """Return `encode` at fixed points for many networks of this architecture.

        Whatever does not depend on parameters is computed once. `buffers` are stacked like parameters.
        """

    def forward(self, coordinates: Tensor) -> Tensor:
        values = self.decoder(self.encode(coordinates))
        return values + self.conventions.output_offset if self.conventions.output_offset else values


def interpolated(weights: Tensor, tables: Tensor) -> Tensor:
    """Multiply interpolation weights [points, sites] by tables [G, sites, channels] in one product."""
    columns = tables.transpose(0, 1).flatten(1)  # [sites, G * channels]
    return (weights @ columns).unflatten(1, (len(tables), -1)).transpose(0, 1)
