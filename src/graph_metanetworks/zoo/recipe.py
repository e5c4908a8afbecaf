"""A recipe: how the networks of a zoo are drawn, built and trained."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar, get_type_hints, runtime_checkable

import torch
from torch import Tensor, nn

from graph_metanetworks.errors import ZooError

Config = TypeVar("Config")  # a frozen dataclass of plain values: one column of the table each


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained network: its weights, and what is known of it (one column of the table each)."""

    state_dict: dict[str, Tensor]
    metrics: dict[str, float | int | bool | str]
    checkpoints: dict[int, dict[str, Tensor]] = field(default_factory=dict)  # by step, where asked for


def metrics_at(
    number: int, of: int, step: int, metrics: Mapping[str, float | int | bool | str]
) -> dict[str, float | int | bool | str]:
    """The columns of a checkpoint: by its number, so that networks can be compared that train for longer.

    >>> metrics_at(1, 3, 20, {"test_loss": 0.5})
    {'step_at_1_of_3': 20, 'test_loss_at_1_of_3': 0.5}
    """
    return {f"{name}_at_{number}_of_{of}": value for name, value in {"step": step, **metrics}.items()}


class Recipe(ABC, Generic[Config]):
    """How to draw, build and train the networks of one zoo; made with its data and options.

    What network `k` of a zoo is drawn as, initial weights included, depends on the zoo's seed, on `k` and on
    `settings()`, on nothing else. Which networks are trained beside it may change how training rounds.
    """

    name: ClassVar[str]
    population: ClassVar[int] = 64  # at most so many networks are trained together

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """What decides the result, as JSON: options, the data and its checksum; `from_settings` reads it."""

    @classmethod
    @abstractmethod
    def from_settings(cls, settings: dict[str, Any]) -> Recipe[Config]:
        """The recipe again, without its data: enough to build and render networks."""

    def config(self, values: dict[str, Any]) -> Config:
        """A config again, from its fields: the dataclass that `draw` is annotated with, or returns."""
        kind = get_type_hints(type(self).draw).get("return") or type(self.draw(torch.Generator()))
        if not is_dataclass(kind):
            raise ZooError(
                f"{type(self).__name__}.draw must be annotated with the dataclass that it returns, or "
                f"{type(self).__name__}.config be written: how to make a {kind} is not known."
            )
        return kind(**values)  # pyright: ignore[reportReturnType, reportCallIssue]

    @abstractmethod
    def draw(self, generator: torch.Generator) -> Config:
        """The hyper-parameters of a network."""

    def draw_at(self, index: int, generator: torch.Generator) -> Config:
        """The hyper-parameters of network `index`; recipes that take a data set in order use it."""
        return self.draw(generator)

    @abstractmethod
    def build(self, config: Config) -> nn.Module:
        """An untrained network."""

    def example(self, config: Config) -> tuple[Any, ...]:
        """Arguments of the network's `forward`, any that fit: with them it is traced."""
        raise ZooError(
            f"the recipe {self.name} does not say what its networks take, so they cannot be traced: write "
            f"{type(self).__name__}.example(config), which returns the arguments of forward, such as "
            "(torch.zeros(1, 3, 32, 32),)."
        )

    @abstractmethod
    def shape(self, config: Config) -> Hashable:
        """Networks of equal shape are of one architecture: trained together, and traced once."""

    @abstractmethod
    def train(
        self, configs: Sequence[Config], seeds: Sequence[int], progress: Callable[[float], None]
    ) -> list[Trained]:
        """Train networks of one shape. `progress` is told, now and then, which share of the work is done."""


@runtime_checkable
class Renders(Protocol):
    """A recipe of networks that show a signal or an image."""

    def render(
        self, state_dict: dict[str, Tensor], config: Any, size: int | Sequence[int] | None = None
    ) -> Tensor: ...


def network_seed(zoo_seed: int, index: int) -> int:
    """The seed of everything random about network `index`.

    >>> network_seed(0, 3) == network_seed(0, 3) != network_seed(0, 4)
    True
    """
    digest = hashlib.blake2b(f"{zoo_seed}/{index}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1
