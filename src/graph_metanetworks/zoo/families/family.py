"""Families of classifiers: the distributions of their hyper-parameters, and how to build a network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from graph_metanetworks.zoo.draws import Choice, Uniform


@dataclass(frozen=True)
class ImageSpec:
    """The shape of the images and the number of classes."""

    channels: int
    height: int
    width: int
    classes: int

    @property
    def inputs(self) -> int:
        """The number of values in an image."""
        return self.channels * self.height * self.width


@dataclass(frozen=True)
class ClassifierArchitecture:
    """The hyper-parameters of a classifier that, with its weights, define its function."""

    family: str
    hidden: int
    depth: int  # number of convolutions, equivariant layers or blocks
    linear_layers: int
    norm: str  # batch, group or layer
    dropout: float


@dataclass(frozen=True)
class Family:
    """The distributions of a family's hyper-parameters, and a function that builds its networks."""

    name: str
    hidden: Choice
    depth: Choice
    linear_layers: Choice
    norm: Choice
    dropout: Uniform
    build: Callable[[ClassifierArchitecture, ImageSpec], nn.Module]
