"""Classify networks: INRs by the image that they show, or any zoo with a column of classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, nll_loss
from torchmetrics.functional.classification import multiclass_f1_score

from graph_metanetworks.errors import TaskError
from graph_metanetworks.extras import optional_imports
from graph_metanetworks.graph.batch import Batch, Stack
from graph_metanetworks.methods.method import Output
from graph_metanetworks.nn.fitted import Fitted
from graph_metanetworks.table import Table
from graph_metanetworks.tasks.coordinates import CoordinateLayer, random_motions
from graph_metanetworks.tasks.data import TaskData
from graph_metanetworks.tasks.evaluation import Evaluation, predict_parts, target_parts
from graph_metanetworks.tasks.grouped_splits import OWN, GroupedSetting
from graph_metanetworks.tasks.options import TaskOptions
from graph_metanetworks.tasks.runner import Runner
from graph_metanetworks.tasks.task import Score, Task
from graph_metanetworks.tasks.traced_zoo import TracedZoo
from graph_metanetworks.training.job import Split
from graph_metanetworks.training.options import option

if TYPE_CHECKING:
    from torchmetrics import Metric


@dataclass(frozen=True)
class Options(TaskOptions):
    """Options that affect the result."""

    label: str = option("label", "Column of the zoo with the classes, names or numbers.")
    group: str = option("image", "Column whose networks with equal entries stay in one part.")
    setting: str = option(
        OWN, "own: column split of the zoo, else 80 %; a percentage; or COLUMN!=VALUE, not to train on."
    )
    augment: bool = option(False, "Rotate, scale and shift coordinates, exactly, by the first layer.")
    smoothing: float = option(0.1, "Label smoothing of the loss.")
    steps: int = option(3000, "Training steps, one batch each.", least=1)
    batch_size: int = option(64, "Networks per batch.", least=1)
    averaging: float = option(0.98, "Decay of the moving average of weights, which is what is kept; 0: none.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.smoothing < 1:
            raise TaskError(f"smoothing is at least 0 and less than 1, such as 0.1, not {self.smoothing:g}.")


class ClassifiedZoo(TaskData):
    """A traced zoo with classes, which are numbered in order."""

    def __init__(self, networks: TracedZoo, label: str) -> None:
        self.classes, targets = read_classes(networks, label)
        super().__init__(networks, torch.from_numpy(targets))


def read_classes(networks: TracedZoo, label: str) -> tuple[tuple[str, ...], np.ndarray]:
    """Return the names of the classes in a column, in order, and the number of that of each network."""
    table, where = networks.zoo.table, networks.zoo.folder
    if label not in table.column_names:
        raise TaskError(
            f"{where} has no column '{label}' of classes; its columns are {', '.join(table.column_names)}. "
            "Name one with --label."
        )
    values = table[label].to_pylist()
    missing = sum(value is None for value in values)
    if missing:
        raise TaskError(
            f"{missing:,} of {len(values):,} networks of {where} have no '{label}'. Label them all, or make "
            "a zoo without them: gmn.Zoo.open(folder).filter(...)."
        )
    classes = sorted(set(values))
    if len(classes) < 2 or len(classes) > len(values) / 2:
        found = f"one class, {classes[0]}" if len(classes) == 1 else f"{len(classes):,} different entries"
        raise TaskError(
            f"the column '{label}' of {where} has {found}, for {len(values):,} networks. Name a column with "
            "at least two classes, and several networks of each, with --label."
        )
    numbers = {value: number for number, value in enumerate(classes)}
    return tuple(map(str, classes)), np.array([numbers[value] for value in values])


@dataclass(frozen=True)
class Classified:
    """The class of one network, and the probability of every class."""

    name: str
    label: str
    probability: float
    probabilities: dict[str, float]


class Classes(Fitted):
    """The names of the classes, kept with the weights."""

    def make_tables(self) -> None:
        """There are names only."""


class Classifier(Runner):
    """A trained classifier, ready to use.

    >>> classifier = gmn.load("runs/fashion")                 # doctest: +SKIP
    >>> classifier(inr, torch.zeros(1, 2))                    # doctest: +SKIP
    [Classified(name='Siren', label='9', probability=0.98, probabilities={'0': 0.0, ...})]
    """

    @property
    def classes(self) -> tuple[str, ...]:
        return cast(Classes, self.reference).fitted_names

    @torch.no_grad()
    def predict(self, batch: Batch) -> list[Classified]:
        found = []
        for name, own in zip(batch.names, self.outputs(batch).exp().tolist(), strict=True):
            probabilities = dict(zip(self.classes, own, strict=True))
            label = max(probabilities, key=lambda name: probabilities[name])
            found.append(Classified(name, label, probabilities[label], probabilities))
        return found

    def table(self, results: Sequence[Classified]) -> Table:
        rows = []
        for result in results:
            second = sorted(result.probabilities, key=lambda name: -result.probabilities[name])[1]
            rest = f"{second} ({result.probabilities[second]:.3f})"
            rows.append((result.name, result.label, f"{result.probability:.3f}", rest))
        return Table("Classes", ("network", "class", "probability", "or else"), rows, right=("probability",))


def _accuracy() -> Metric:
    with optional_imports():
        from torchmetrics.classification import MulticlassAccuracy
    return MulticlassAccuracy(average="micro")


class Classification(Task[Options]):
    """Predict classes: outputs are logits, predictions their logarithmic softmax, the loss cross-entropy."""

    name = "classification"
    title = "Classify networks by their weights"
    options_class = Options
    runner_class = Classifier
    scores = (
        Score("accuracy", "accuracy", metric=_accuracy),
        Score("f1", "macro F1"),
        Score("nll", "negative log-likelihood", higher_is_better=False, headline=False),
    )
    methods = ("gmn", "gmn-probes", "statnn", "statnn-probes", "dmc", "deepsets")
    settings = (OWN,)

    def data(self, networks: TracedZoo) -> ClassifiedZoo:
        if self.options.augment:
            for graph in networks.graphs:
                CoordinateLayer.of(graph)  # an error before anything is written
        return ClassifiedZoo(networks, self.options.label)

    def setting(self, name: str) -> GroupedSetting:
        return GroupedSetting.of(name, self.options.group)

    def transform(self, batch: Batch, generator: torch.Generator, *, training: bool) -> Batch:
        if not (training and self.options.augment):
            return batch
        return replace(batch, stacks=tuple(_moved(stack, generator) for stack in batch.stacks))

    def output(self, data: TaskData) -> Output:
        return Output(len(cast(ClassifiedZoo, data).classes), link="softmax")

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return cross_entropy(outputs, targets, label_smoothing=self.options.smoothing)

    def predict(self, outputs: Tensor) -> Tensor:  # [B, classes]
        return outputs.log_softmax(-1)

    def make_reference(self) -> Classes:
        return Classes()

    @torch.no_grad()
    def evaluate(self, model: nn.Module, data: TaskData, split: Split) -> Evaluation:
        classes = cast(ClassifiedZoo, data).classes
        predicted, true = predict_parts(self, model, data, split), target_parts(data, split)
        indices, rows = data.networks.zoo.table["index"].to_numpy(), []
        for part, own in split.parts().items():
            probability, guess = predicted[part].exp().max(1)
            found = (indices[own], true[part].tolist(), guess.tolist(), probability.tolist())
            for index, target, chosen, sure in zip(*found, strict=True):
                named = {"true class": classes[target], "predicted class": classes[chosen]}
                numbers = {"true": target, "predicted": chosen, "probability": f"{sure:.4f}"}
                rows.append({"index": index, "part": part, **numbers, **named})
        reference = Classes()
        reference.set_fitted_names(classes)
        return Evaluation({part: _scores(predicted[part], true[part]) for part in predicted}, rows, reference)


def _scores(predicted: Tensor, true: Tensor) -> dict[str, float]:
    guess = predicted.argmax(1)
    return {
        "networks": len(true),
        "accuracy": float((guess == true).double().mean()),
        "f1": float(multiclass_f1_score(guess, true, predicted.shape[1], average="macro")),
        "nll": float(nll_loss(predicted, true)),
    }


def _moved(stack: Stack, generator: torch.Generator) -> Stack:
    """Move the coordinates of each network of a stack at random."""
    layer, like = CoordinateLayer.of(stack.graph), next(iter(stack.weights.values()))
    matrix, shift = random_motions(len(stack.members), layer.dims, generator, torch.float32)
    return replace(stack, weights=layer.moved(stack.weights, matrix.to(like), shift.to(like)))
