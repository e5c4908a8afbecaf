"""A task of your own, in one file: predict the learning rate that a network was trained with.

gmn train examples/learning_rate_task.py:LearningRate zoos/diverse --out runs/rate
gmn experiment examples/learning_rate_task.py:LearningRate --zoo zoos/diverse --out experiments/rate
gmn predict runs/rate zoos/other
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss
from torchmetrics import R2Score
from torchmetrics.functional import r2_score

from graph_metanetworks.tasks import (
    Evaluation,
    Score,
    Split,
    Task,
    TaskData,
    TaskOptions,
    TracedZoo,
    number_rows,
    option,
    predict_parts,
    read_numbers,
    target_parts,
)


@dataclass(frozen=True)
class Options(TaskOptions):
    """Fields become options of `gmn train` and `gmn experiment`, with their defaults and help."""

    column: str = option("learning_rate", "Column of the zoo that holds the learning rates.")


class LearningRate(Task[Options]):
    """Targets are logarithms: a factor of ten is an error of one."""

    name = "learning-rate"
    title = "Predict the learning rate"
    options_class = Options
    scores = (
        Score("r2", "R²", metric=R2Score),  # the first score chooses the checkpoint
        Score("error", "mean error (powers of ten)", higher_is_better=False),
    )
    methods = ("gmn", "statnn", "statnn-boosting")
    settings = ("50",)

    def data(self, networks: TracedZoo) -> TaskData:
        table, where = networks.zoo.table, str(networks.zoo.folder)
        rates = read_numbers(table, self.options.column, where=where, option="--column")
        return TaskData(networks, torch.from_numpy(np.log10(rates)))

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:  # [B, 1] and [B]
        return mse_loss(self.predict(outputs), targets)

    def predict(self, outputs: Tensor) -> Tensor:  # [B, 1] -> [B]
        return outputs.squeeze(-1)

    def evaluate(self, model: nn.Module, data: TaskData, split: Split) -> Evaluation:
        predicted, true = predict_parts(self, model, data, split), target_parts(data, split)
        scores = {
            part: {
                "r2": float(r2_score(predicted[part], true[part])),
                "error": float((predicted[part] - true[part]).abs().mean()),
            }
            for part in predicted
        }
        return Evaluation(scores, number_rows(data, split, predicted))
