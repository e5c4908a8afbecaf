"""The type of a menagerie entry and the registry that collects the entries."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import torch
from torch import nn

from .randomise import randomise

Builder = TypeVar("Builder", bound=Callable[[], nn.Module])


@dataclass(frozen=True, kw_only=True, eq=False)
class Architecture:
    """One small network: how to build it, how to call it, and how to trace it."""

    name: str
    build: Callable[[], nn.Module]
    example: Callable[[], tuple[tuple, dict]]
    tracer: Mapping[str, object] = field(default_factory=dict)
    family: str
    float64: bool = True  # whether model.double() computes in float64 throughout

    def make(self) -> tuple[nn.Module, tuple, dict]:
        """Return the model in eval mode, every tensor of it random, with its args and kwargs."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = self.build()
        randomise(model, generator=torch.Generator().manual_seed(0))
        args, kwargs = self.example()
        return model.eval(), args, kwargs

    def __str__(self) -> str:
        return self.name


REGISTRY: dict[str, Architecture] = {}


def architecture(
    name: str,
    *,
    family: str,
    example: Callable[[], tuple[tuple, dict]],
    tracer: Mapping[str, object] | None = None,
    float64: bool = True,
) -> Callable[[Builder], Builder]:
    """Register the decorated builder, a function or a class without required arguments."""

    def register(build: Builder) -> Builder:
        if name in REGISTRY:
            raise ValueError(f"the menagerie already has {name!r}: choose another name")
        REGISTRY[name] = Architecture(
            name=name,
            build=build,
            example=example,
            tracer=tracer or {},
            family=family,
            float64=float64,
        )
        return build

    return register
