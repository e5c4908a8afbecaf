"""A trained predictor: accuracies with intervals, and warnings where it should not be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn

from graph_metanetworks.errors import TaskError
from graph_metanetworks.graph.batch import Batch
from graph_metanetworks.nn.fitted import resize_buffers
from graph_metanetworks.nn.probes import Probes
from graph_metanetworks.table import Table
from graph_metanetworks.tasks.accuracy.intervals import interval
from graph_metanetworks.tasks.accuracy.novelty import Novelty
from graph_metanetworks.tasks.loading import load
from graph_metanetworks.tasks.runner import Runner

LEVEL = 0.9


@dataclass(frozen=True)
class Prediction:
    """The accuracy that a network should have on the data of the training zoo."""

    name: str
    accuracy: float
    low: float
    high: float
    warning: str = ""  # the reason not to trust it, if there is one


def find_probes(model: nn.Module) -> Probes | None:
    """Return the probes that a model runs networks on, if it does."""
    return next((part for part in model.modules() if isinstance(part, Probes)), None)


class AccuracyReference(nn.Module):
    """Statistics of the training and validation networks, for intervals and warnings."""

    def __init__(self, calibration: Tensor | None = None, novelty: Novelty | None = None) -> None:
        super().__init__()
        self.calibration = nn.Buffer(torch.zeros(0) if calibration is None else calibration)
        self.novelty = novelty or Novelty()
        resize_buffers(self, "calibration")


@dataclass(frozen=True, eq=False, repr=False)
class Predictor(Runner):
    """A trained predictor of accuracy, ready to use.

    >>> predictor = gmn.load("runs/gmn")                      # doctest: +SKIP
    >>> predictor(model, torch.zeros(1, 3, 32, 32))           # doctest: +SKIP
    [Prediction(name='Cnn', accuracy=0.93, low=0.9, high=0.96, warning='')]
    """

    options = ("level",)

    @classmethod
    def load(cls, folder: str | Path) -> Predictor:
        return cast(Predictor, load(folder))

    @property
    def calibration(self) -> Tensor:
        """Residuals of validation networks, ascending."""
        return cast(AccuracyReference, self.reference).calibration

    @property
    def novelty(self) -> Novelty:
        return cast(AccuracyReference, self.reference).novelty

    @torch.no_grad()
    def predict(self, batch: Batch, *, level: float = LEVEL) -> list[Prediction]:
        """Predict accuracies, with intervals that hold the truth with probability `level`."""
        if not 0 < level < 1:
            raise TaskError(f"--level {level} must lie between 0 and 1, such as 0.9.")
        accuracies = self.accuracies(batch)
        low, high = interval(accuracies, self.calibration, level)
        rows = zip(
            batch.names,
            accuracies.tolist(),
            low.tolist(),
            high.tolist(),
            self.novelty.judge(batch, accuracies, find_probes(self.model)),
            strict=True,
        )
        return [
            Prediction(name, accuracy, below, above, novelty.warning)
            for name, accuracy, below, above, novelty in rows
        ]

    def accuracies(self, batch: Batch) -> Tensor:  # [B]
        return self.outputs(batch)

    def table(self, results: Sequence[Prediction]) -> Table:
        header = ("network", "accuracy", "interval", "out of distribution")
        rows = [
            (p.name, f"{p.accuracy:.3f}", f"{p.low:.3f} to {p.high:.3f}", "yes" if p.warning else "")
            for p in results
        ]
        return Table("Predicted accuracy", header, rows, right=("accuracy",))
