"""Hyper-parameters and the distributions they are drawn from."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

import torch

Config = TypeVar("Config")

DISTRIBUTION = "distribution"


class Distribution(ABC):
    """A distribution of a hyper-parameter."""

    @abstractmethod
    def draw(self, generator: torch.Generator) -> Any: ...


@dataclass(frozen=True)
class Choice(Distribution):
    """A uniform choice from a list of values.

    >>> Choice("a", "b").draw(torch.Generator().manual_seed(0))
    'a'
    """

    values: tuple[Any, ...]

    def __init__(self, *values: Any) -> None:
        object.__setattr__(self, "values", values)

    def draw(self, generator: torch.Generator) -> Any:
        return self.values[int(torch.randint(len(self.values), (), generator=generator))]


@dataclass(frozen=True)
class Uniform(Distribution):
    """A number drawn uniformly from an interval."""

    low: float
    high: float

    def draw(self, generator: torch.Generator) -> float:
        fraction = float(torch.rand((), generator=generator, dtype=torch.float64))
        return self.low + (self.high - self.low) * fraction


@dataclass(frozen=True)
class LogUniform(Distribution):
    """A number whose logarithm is uniform, so that all orders of magnitude are equally likely."""

    low: float
    high: float

    def draw(self, generator: torch.Generator) -> float:
        return math.exp(Uniform(math.log(self.low), math.log(self.high)).draw(generator))


def drawn(distribution: Distribution) -> Any:
    """Declare a dataclass field whose values are drawn from a distribution."""
    return field(metadata={DISTRIBUTION: distribution})


def draw(config: type[Config], generator: torch.Generator) -> Config:
    """Draw hyper-parameters, each from the distribution of its field.

    >>> @dataclass(frozen=True)
    ... class Mlp:
    ...     width: int = drawn(Choice(16, 32))
    >>> draw(Mlp, torch.Generator().manual_seed(0))
    Mlp(width=16)
    """
    values = {}
    for entry in fields(config):  # pyright: ignore[reportArgumentType]
        if DISTRIBUTION not in entry.metadata:
            raise TypeError(
                f"{config.__name__}.{entry.name} has no distribution: write {entry.name}: ... = "
                "drawn(Choice(...)), or override draw in the recipe"
            )
        values[entry.name] = entry.metadata[DISTRIBUTION].draw(generator)
    return config(**values)
