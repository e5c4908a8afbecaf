"""The base class of learning tasks on zoos. Subclass `Task` to add one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Generic, Self, TypeVar

import torch
from torch import Tensor, nn

from graph_metanetworks.errors import TaskError
from graph_metanetworks.graph.batch import Batch
from graph_metanetworks.methods.method import Embeds, Output
from graph_metanetworks.tasks.data import TaskData
from graph_metanetworks.tasks.evaluation import Evaluation
from graph_metanetworks.tasks.options import TaskOptions
from graph_metanetworks.tasks.runner import Runner
from graph_metanetworks.tasks.splits import Setting
from graph_metanetworks.tasks.traced_zoo import TracedZoo
from graph_metanetworks.training.job import Split
from graph_metanetworks.training.objective import Score

__all__ = ["Score", "Task"]


OptionsT = TypeVar("OptionsT", bound=TaskOptions)


class Task(ABC, Generic[OptionsT]):
    """A learning task on a zoo: targets, loss, scores.

    A task has no state but its options. Everything it measures goes into the run folder. The page "Add a
    task" of the docs shows a complete one in one file.
    """

    name: ClassVar[str]
    title: ClassVar[str]  # heading of reports
    options_class: ClassVar[type[TaskOptions]] = TaskOptions
    runner_class: ClassVar[type[Runner]] = Runner
    scores: tuple[Score, ...]  # of the class, or of its options
    methods: ClassVar[tuple[str, ...]] = (  # that experiments compare
        "gmn",
        "gmn-probes",
        "statnn",
        "statnn-probes",
        "statnn-boosting",
        "dmc",
        "deepsets",
    )
    settings: ClassVar[tuple[str, ...]] = ("50", "5", "ood")

    def __init__(self, options: OptionsT | None = None, *, reference: str | None = None) -> None:
        self.options: OptionsT = options or self.options_class()  # type: ignore[assignment]
        self.reference = reference or self.name  # how run.json names the task

    @property
    def selection(self) -> Score:
        """The score that chooses checkpoints and learning rates, and stops training early."""
        return self.scores[0]

    def with_options(self, **changes: Any) -> Self:
        """Return the same task with other options."""
        return type(self)(replace(self.options, **changes), reference=self.reference)

    # -------------------------------------------------------------- data

    @abstractmethod
    def data(self, networks: TracedZoo) -> TaskData:
        """Pair the networks of a zoo with their targets."""

    def setting(self, name: str) -> Setting:
        """Find a setting by its name; an unknown one is a TaskError."""
        return Setting.parse(name)

    def split(self, data: TaskData, setting: str, seed: int) -> Split:
        """Divide the usable networks into training, validation and test networks."""
        return self.setting(setting).split(data.networks.zoo.table, data.usable, seed)

    def transform(self, batch: Batch, generator: torch.Generator, *, training: bool) -> Any:
        """Return the input of the model: the batch, an augmented batch, or several views of it."""
        return batch

    # -------------------------------------------------------------- learning

    def output(self, data: TaskData) -> Output:
        """Return the output that the model must produce."""
        return Output()

    def make_model(self, output: Output) -> nn.Module:
        """Make the untrained model; override it to put something around a method's model."""
        return self.options.found_method.make(self.options.size, output)

    def forward(self, model: nn.Module, inputs: Any) -> Any:
        """Run the model on what `transform` returned."""
        return model(inputs)

    @abstractmethod
    def loss(self, outputs: Any, targets: Any) -> Tensor:
        """Return the loss of a batch."""

    def predict(self, outputs: Any) -> Any:
        """Turn outputs of the model into predictions, which metrics compare with targets."""
        return outputs

    def embed(self, model: nn.Module, batch: Batch) -> Tensor:  # [B, d]
        """Return the representation of each network: by default that before the last layer of the model."""
        if not isinstance(model, Embeds):
            raise TaskError(
                f"{self.options.method} has no embedding: its model has no layer before the last one. Train "
                "another method, such as gmn; a model of your own needs a method embed(batch) -> [B, d]."
            )
        return model.embed(batch)

    def make_reference(self) -> nn.Module:
        """Make an empty module for the state that runs keep in addition to the model."""
        return nn.Module()

    @abstractmethod
    def evaluate(self, model: nn.Module, data: TaskData, split: Split) -> Evaluation:
        """Measure a trained model, on the device where it was trained, on every part of the data."""

    # -------------------------------------------------------------- reports

    def report_sections(self, results: Any, data: TaskData) -> Sequence[tuple[str, str]]:
        """Return titles and HTML of additional sections for the report of `gmn experiment`."""
        return ()
