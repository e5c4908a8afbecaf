"""A method: a metanetwork or a baseline, made for any task that it can serve."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, cast, runtime_checkable

from torch import Tensor, nn

from graph_metanetworks.errors import TaskError
from graph_metanetworks.graph.batch import Batch
from graph_metanetworks.training.strategy import GRADIENT_DESCENT, Strategy

Level = Literal["graph", "node", "edge"]
Link = Literal["identity", "logit", "softmax"]


@dataclass(frozen=True)
class Output:
    """The output that a task requires of a model.

    Args:
        width: numbers per network, node or edge.
        level: "graph" `[B, width]`, "node" `[N, width]` or "edge" `[E, width]`.
        link: how outputs relate to targets: equal to them, their logits, or logits of classes. Models trained
            by gradient may ignore it, because the task's loss knows.
        input_shape: of what the networks of the zoo take, for methods that run them on probes; None if they
            take several inputs, integers, or inputs of different shapes.
        input_range: the smallest and the largest coordinate, if inputs are points; None if the zoo does not
            say.
    """

    width: int = 1
    level: Level = "graph"
    link: Link = "identity"
    input_shape: tuple[int, ...] | None = None
    input_range: tuple[float, float] | None = None


@dataclass(frozen=True)
class Method:
    """A way to learn from weights.

    Args:
        name: its name on the command line.
        title: its name in tables and figures.
        about: its input, and what it cannot see.
        sizes: by name, functions that make a model for an `Output`.
        levels: levels of its results.
        strategy: how it learns.
        learning_rate: the default.
    """

    name: str
    title: str
    about: str
    sizes: Mapping[str, Callable[[Output], nn.Module]]
    levels: tuple[Level, ...] = ("graph",)
    strategy: Strategy = GRADIENT_DESCENT
    learning_rate: float = 1e-3

    def make(self, size: str = "small", output: Output | None = None) -> nn.Module:
        """Make an untrained model."""
        output = output or Output()
        self.require_size(size)
        if output.level not in self.levels:
            raise TaskError(
                f"{self.name} gives one result per {' or '.join(self.levels)}, and this task needs one per "
                f"{output.level}: choose another method."
            )
        return self.sizes[size](output)

    def require_size(self, size: str) -> None:
        if size not in self.sizes:
            raise TaskError(f"{self.name} has no size '{size}'; choose from {', '.join(self.sizes)}.")

    @property
    def by_gradient(self) -> bool:
        """Whether it has a learning rate and a learning curve."""
        return self.strategy.has_learning_rate


class Metanetwork(Protocol):
    """A model made by a method, an `nn.Module`: fitted to the scales of a training zoo, then trained."""

    def fit(self, batches: Iterable[Batch]) -> None: ...
    def __call__(self, batch: Batch) -> Tensor: ...


@runtime_checkable
class Embeds(Protocol):
    """A model that has a representation of each network, `[B, d]`: the one before its last layer."""

    def embed(self, batch: Batch, /) -> Tensor: ...


def as_metanetwork(model: nn.Module) -> Metanetwork:
    """Return the same object, typed as a metanetwork."""
    return cast(Metanetwork, model)


def count_parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())
