"""Evaluation of a trained model, and the predictions that most tasks base it on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from graph_metanetworks.tasks.data import TaskData
from graph_metanetworks.tasks.runner import predictions
from graph_metanetworks.training.job import Networks, Split

if TYPE_CHECKING:
    from graph_metanetworks.tasks.task import Task


@dataclass(frozen=True)
class Evaluation:
    """The evaluation of a trained model.

    Args:
        scores: by part ("train", "validation", "test") and name.
        rows: lines of predictions.csv, each with the same columns.
        reference: state that the runner needs in addition to the model, as `Task.make_reference` makes it.
    """

    scores: Mapping[str, Mapping[str, float]]
    rows: Sequence[Mapping[str, Any]] = ()
    reference: nn.Module = field(default_factory=nn.Module)


@torch.no_grad()
def predict_parts(task: Task[Any], model: nn.Module, data: TaskData, split: Split) -> dict[str, Tensor]:
    """Predict for all networks of every part, in float64 and then rounded. [n] or [n, k] by part"""
    exact, size = exact_copy(model), task.options.batch_size

    def predict(positions: np.ndarray) -> Tensor:
        found = [predictions(task, exact, batch) for batch in Networks(data, positions, size)]
        return torch.cat(found or [torch.zeros(0)])

    return {part: predict(positions) for part, positions in split.parts().items()}


def exact_copy(model: nn.Module) -> nn.Module:
    """Copy a model for evaluation, in float64 on its device; one without float64 is left for the CPU."""
    copy = deepcopy(model).eval()
    if any(parameter.device.type == "mps" for parameter in copy.parameters()):
        copy = copy.cpu()
    return copy.double()


def target_parts(data: TaskData, split: Split) -> dict[str, Any]:
    """Return the targets of every part."""
    return {part: data.targets[positions] for part, positions in split.parts().items()}


def number_rows(data: TaskData, split: Split, predicted: Mapping[str, Tensor]) -> list[dict[str, Any]]:
    """Make the lines of predictions.csv for a task that predicts one number per network."""
    indices, true = data.networks.zoo.table["index"].to_numpy(), target_parts(data, split)
    return [
        {"index": index, "part": part, "true": f"{target:.6f}", "predicted": f"{value:.6f}"}
        for part, own in split.parts().items()
        for index, target, value in zip(
            indices[own], true[part].tolist(), predicted[part].tolist(), strict=True
        )
    ]
