"""The objective of training: a loss, scores, and views of a batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor, nn

from graph_metanetworks.graph.batch import Batch

if TYPE_CHECKING:
    from torchmetrics import Metric


@dataclass(frozen=True)
class Score:
    """A measure of how good a model is.

    Args:
        name: its key in files, such as "r2".
        title: its heading in tables and figures, such as "R²".
        metric: makes the torchmetrics metric that follows it during training; None if it is measured at the
            end only.
        headline: whether the experiment's main table shows it.
        digits: shown after the point.
    """

    name: str
    title: str
    higher_is_better: bool = True
    metric: Callable[[], Metric] | None = None
    headline: bool = True
    digits: int = 3

    @property
    def column(self) -> str:
        """Its name in learning curves and checkpoints."""
        return f"val_{self.name}"

    def better(self, value: float) -> float:
        """Return a number that is larger for better values."""
        return value if self.higher_is_better else -value


class Objective(Protocol):
    """The objective that a model is trained for. `selection` chooses the checkpoint."""

    scores: tuple[Score, ...]

    @property
    def selection(self) -> Score: ...

    def transform(self, batch: Batch, generator: torch.Generator, *, training: bool) -> Any: ...
    def forward(self, model: nn.Module, inputs: Any) -> Any: ...
    def loss(self, outputs: Any, targets: Any) -> Tensor: ...
    def predict(self, outputs: Any) -> Any: ...


def followed(objective: Objective) -> tuple[Score, ...]:
    """Return the scores that are measured after each round."""
    scores = objective.scores
    return scores if objective.selection in scores else (*scores, objective.selection)
