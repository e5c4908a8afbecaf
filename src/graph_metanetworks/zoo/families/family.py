"""What a family of classifiers is: a row of the paper's table of hyper-parameters, and how to build one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from graph_metanetworks.zoo.draws import Choice, Uniform


@dataclass(frozen=True)
class Task:
    """What a classifier is for."""

    channels: int
    height: int
    width: int
    classes: int

    @property
    def inputs(self) -> int:
        """Numbers of an image."""
        return self.channels * self.height * self.width


@dataclass(frozen=True)
class Architecture:
    """The hyper-parameters of a classifier that decide its function, beside its weights."""

    family: str
    hidden: int
    depth: int  # convolutions, equivariant layers or blocks
    linear_layers: int
    norm: str  # batch, group or layer
    dropout: float


@dataclass(frozen=True)
class Family:
    """Where the hyper-parameters of a family are drawn from, and its networks."""

    name: str
    hidden: Choice
    depth: Choice
    linear_layers: Choice
    norm: Choice
    dropout: Uniform
    build: Callable[[Architecture, Task], nn.Module]
