"""Training to predict accuracy, as a LightningModule."""

from __future__ import annotations

from math import cos, pi
from typing import Any, Literal

import torch
from lightning.pytorch import LightningModule
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, mse_loss
from torch.optim.lr_scheduler import LambdaLR
from torchmetrics import KendallRankCorrCoef, MetricCollection, R2Score

from graph_metanetworks.graph.batch import Batch

Loss = Literal["bce", "mse"]
WARMUP = 0.05  # share of the steps


class AccuracyModule(LightningModule):
    """A metanetwork that learns accuracies: Adam, a warm-up, then a cosine to zero.

    Args:
        model: a batch of networks in, logits `[B, 1]` out.
        loss: binary cross-entropy between sigmoid and accuracy, or the squared error.
        steps: of the whole training.
    """

    def __init__(self, model: nn.Module, *, learning_rate: float, steps: int, loss: Loss = "bce") -> None:
        super().__init__()
        self.model, self.learning_rate, self.steps = model, learning_rate, steps
        self.loss: Loss = loss
        self.scores = MetricCollection({"r2": R2Score(), "tau": KendallRankCorrCoef()}, prefix="val_")

    def forward(self, networks: Batch) -> Tensor:  # [B]
        return self.model(networks).squeeze(-1).sigmoid()

    def training_step(self, batch: tuple[Batch, Tensor], _: int) -> Tensor:
        networks, accuracies = batch
        loss = loss_of(self.model(networks).squeeze(-1), accuracies, self.loss)
        self.log("train_loss", loss, batch_size=len(networks), on_step=False, on_epoch=True, sync_dist=True)
        return loss

    def validation_step(self, batch: tuple[Batch, Tensor], _: int) -> None:
        networks, accuracies = batch
        logits = self.model(networks).squeeze(-1)
        self.scores.update(logits.sigmoid(), accuracies)
        loss = loss_of(logits, accuracies, self.loss)
        self.log("val_loss", loss, batch_size=len(networks), sync_dist=True)

    def on_validation_epoch_end(self) -> None:
        self.log_dict(self.scores.compute())
        self.scores.reset()

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.Adam(self.model.parameters(), lr=self.learning_rate)
        schedule = LambdaLR(optimizer, lambda step: rate(step, self.steps))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def loss_of(logits: Tensor, accuracies: Tensor, loss: Loss) -> Tensor:
    if loss == "bce":
        return binary_cross_entropy_with_logits(logits, accuracies)
    return mse_loss(logits.sigmoid(), accuracies)


def rate(step: int, steps: int) -> float:
    """The factor of the learning rate.

    >>> [round(rate(step, 100), 3) for step in (0, 4, 5, 50, 99)]
    [0.2, 1.0, 1.0, 0.541, 0.0]
    """
    warmup = max(1, round(WARMUP * steps))
    if step < warmup:
        return (step + 1) / warmup
    return 0.5 + 0.5 * cos(pi * (step - warmup) / max(1, steps - warmup))
