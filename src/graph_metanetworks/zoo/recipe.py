"""Recipes: how the networks of a zoo are drawn, built and trained."""

from __future__ import annotations

import hashlib
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar, get_type_hints, runtime_checkable

import torch
from torch import Tensor, nn

from graph_metanetworks.errors import ZooError
from graph_metanetworks.trace.tracer import Tracer

Config = TypeVar("Config")  # a frozen dataclass of plain values, each a column of the table


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained network: its weights, and its metrics, each a column of the table."""

    state_dict: dict[str, Tensor]
    metrics: dict[str, float | int | bool | str]
    checkpoints: dict[int, dict[str, Tensor]] = field(default_factory=dict)  # by step, if requested


def metrics_at(
    number: int, of: int, step: int, metrics: Mapping[str, float | int | bool | str]
) -> dict[str, float | int | bool | str]:
    """Return the columns of a checkpoint, named by its number.

    So networks that train for different numbers of steps can be compared.

    >>> metrics_at(1, 3, 20, {"test_loss": 0.5})
    {'step_at_1_of_3': 20, 'test_loss_at_1_of_3': 0.5}
    """
    return {f"{name}_at_{number}_of_{of}": value for name, value in {"step": step, **metrics}.items()}


class Recipe(ABC, Generic[Config]):
    """How to draw, build and train the networks of a zoo. An instance holds the data and the options.

    How network `k` of a zoo is drawn, including its initial weights, depends only on the seed of the zoo, on
    `k` and on `options()`. Which networks are trained together with it may change rounding errors.
    """

    name: ClassVar[str]
    population: ClassVar[int] = 64  # maximum number of networks that are trained together

    def __init_subclass__(cls) -> None:
        """Accept recipes that were written with the former names of `options` and `from_options`."""
        super().__init_subclass__()
        for former, name in (("settings", "options"), ("from_settings", "from_options")):
            if former in vars(cls) and name not in vars(cls):
                warnings.warn(
                    f"{cls.__name__}.{former} is now called {name}: rename it.",
                    DeprecationWarning,
                    stacklevel=2,
                )
                setattr(cls, name, vars(cls)[former])

    @abstractmethod
    def options(self) -> dict[str, Any]:
        """Return everything that decides the result as plain values: options, the data and its checksum."""

    @classmethod
    @abstractmethod
    def from_options(cls, options: dict[str, Any]) -> Recipe[Config]:
        """Return the recipe with these `options()`, without its data: enough to build and render networks."""

    def config(self, values: dict[str, Any]) -> Config:
        """Rebuild a config from its fields, as the dataclass that `draw` is annotated with or returns."""
        kind = get_type_hints(type(self).draw).get("return") or type(self.draw(torch.Generator()))
        if not is_dataclass(kind):
            raise ZooError(
                f"configs of {type(self).__name__} cannot be rebuilt, because {kind} is not a dataclass. "
                f"Annotate {type(self).__name__}.draw with the dataclass that it returns, or override config."
            )
        return kind(**values)  # pyright: ignore[reportReturnType, reportCallIssue]

    @abstractmethod
    def draw(self, generator: torch.Generator) -> Config:
        """Draw the hyper-parameters of a network."""

    def draw_at(self, index: int, generator: torch.Generator) -> Config:
        """Draw the hyper-parameters of network `index`. Override this to go through a data set in order."""
        return self.draw(generator)

    @abstractmethod
    def build(self, config: Config) -> nn.Module:
        """Build an untrained network."""

    def example(self, config: Config) -> tuple[Any, ...]:
        """Return example arguments of the network's `forward`, to trace it with."""
        raise ZooError(
            f"the recipe {self.name} has no example inputs, so its networks cannot be traced. Define "
            f"{type(self).__name__}.example(config), which returns the arguments of forward, such as "
            "(torch.zeros(1, 3, 32, 32),)."
        )

    def example_kwargs(self, config: Config) -> dict[str, Any]:
        """Return further arguments of `forward`, by name."""
        return {}

    @property
    def input_range(self) -> tuple[float, float] | None:
        """The smallest and the largest coordinate of inputs that are points, to probe networks between."""
        return None

    @property
    def tracer(self) -> Tracer:
        """What traces the networks."""
        return Tracer()

    @abstractmethod
    def shape(self, config: Config) -> Hashable:
        """Return a key of the architecture. Networks with equal keys are trained together and traced once."""

    @abstractmethod
    def train(
        self, configs: Sequence[Config], seeds: Sequence[int], progress: Callable[[float], None]
    ) -> list[Trained]:
        """Train networks of one shape. Call `progress` now and then with the fraction of work done."""


@runtime_checkable
class Renders(Protocol):
    """A recipe whose networks represent a signal or an image."""

    def render(
        self, state_dict: dict[str, Tensor], config: Any, size: int | Sequence[int] | None = None
    ) -> Tensor: ...


@runtime_checkable
class Completes(Protocol):
    """A recipe whose configs hold more than their columns: the metrics of a network and its shapes."""

    def complete(
        self,
        config: Any,
        metrics: Mapping[str, Any],
        shapes: Callable[[], dict[str, tuple[int, ...]]],
    ) -> Any: ...


def network_seed(zoo_seed: int, index: int) -> int:
    """Return the seed for everything random about network `index`.

    >>> network_seed(0, 3) == network_seed(0, 3) != network_seed(0, 4)
    True
    """
    digest = hashlib.blake2b(f"{zoo_seed}/{index}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1
