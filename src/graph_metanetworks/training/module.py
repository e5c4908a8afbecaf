"""The training step as a LightningModule: AdamW, a warm-up, then a cosine to zero."""

from __future__ import annotations

from math import cos, pi
from typing import Any

import numpy as np
import torch
from lightning.pytorch import LightningModule
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR
from torchmetrics import Metric, MetricCollection

from graph_metanetworks.graph.batch import Batch
from graph_metanetworks.training.objective import Objective, followed
from graph_metanetworks.training.options import TrainingOptions

WARMUP = 0.05  # share of the steps
VALIDATION = 2**32  # seed of the views that validation takes, apart from those of steps


class TrainingModule(LightningModule):
    """Train a model for an objective.

    Args:
        model: a batch of networks in, outputs as the objective expects them.
    """

    def __init__(self, model: nn.Module, objective: Objective, options: TrainingOptions) -> None:
        super().__init__()
        self.model, self.objective, self.options = model, objective, options
        metrics: dict[str, Metric | MetricCollection] = {
            score.name: score.metric() for score in followed(objective) if score.metric is not None
        }
        self.scores = MetricCollection(metrics, prefix="val_") if metrics else None

    def forward(self, networks: Batch) -> Any:
        return self.objective.predict(self.objective.forward(self.model, networks))

    def training_step(self, batch: tuple[Batch, Any], _: int) -> Tensor:
        networks, targets = batch
        inputs = self.objective.transform(networks, self._generator(self.global_step), training=True)
        loss = self.objective.loss(self.objective.forward(self.model, inputs), targets)
        self.log("train_loss", loss, batch_size=len(networks), on_step=False, on_epoch=True, sync_dist=True)
        return loss

    def validation_step(self, batch: tuple[Batch, Any], number: int) -> None:
        networks, targets = batch
        generator = self._generator(VALIDATION + number)  # the same views in every round
        inputs = self.objective.transform(networks, generator, training=False)
        outputs = self.objective.forward(self.model, inputs)
        if self.scores is not None:
            self.scores.update(self.objective.predict(outputs), targets)
        loss = self.objective.loss(outputs, targets)
        self.log("val_loss", loss, batch_size=len(networks), sync_dist=True)

    def on_validation_epoch_end(self) -> None:
        if self.scores is not None:
            self.log_dict(self.scores.compute())
            self.scores.reset()

    def configure_optimizers(self) -> Any:
        options = self.options
        # fused: one pass over each parameter instead of a dozen, a tenth of a step of a small metanetwork
        optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=options.rate, weight_decay=options.weight_decay, fused=True
        )
        schedule = LambdaLR(optimizer, lambda step: rate_factor(step, options.steps))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def _generator(self, number: int) -> torch.Generator:
        """Random numbers that depend on the seed, the step and the process, so that runs can be resumed."""
        entropy = np.random.SeedSequence((self.options.seed, number, self.global_rank))
        return torch.Generator().manual_seed(int(entropy.generate_state(1, np.uint64)[0]))


def rate_factor(step: int, steps: int) -> float:
    """Return the factor of the learning rate at a step.

    >>> [round(rate_factor(step, 100), 3) for step in (0, 4, 5, 50, 99)]
    [0.2, 1.0, 1.0, 0.541, 0.0]
    """
    warmup = max(1, round(WARMUP * steps))
    if step < warmup:
        return (step + 1) / warmup
    return 0.5 + 0.5 * cos(pi * (step - warmup) / max(1, steps - warmup))
