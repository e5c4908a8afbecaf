"""Lightning callbacks: learning curve and progress bar."""

from __future__ import annotations

import csv
from io import StringIO
from pathlib import Path
from time import perf_counter
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from graph_metanetworks.storage.atomic import write_durably
from graph_metanetworks.training.objective import Score

Point = dict[str, float]  # one round of the learning curve: a row of curve.csv


class Curve(Callback):
    """Write `curve.csv` after each round. Checkpoints include it, so a resumed run has all of it."""

    def __init__(self, path: Path, scores: tuple[Score, ...]) -> None:
        followed = (score.column for score in scores if score.metric is not None)
        self.path, self._measured = path, ("train_loss", "val_loss", *followed)
        self.points: list[Point] = []
        self._since = perf_counter()
        self._before = 0.0  # seconds of training before this process

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._since = perf_counter()

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        found = trainer.callback_metrics
        self.points.append(
            {
                "round": trainer.current_epoch + 1,
                "step": trainer.global_step,
                "seconds": round(self._before + perf_counter() - self._since, 2),
                "learning_rate": float(trainer.optimizers[0].param_groups[0]["lr"]),
                **{name: float(found[name]) for name in self._measured},
            }
        )
        if trainer.is_global_zero:
            write_durably(self.path, _as_csv(self.points).encode())

    def state_dict(self) -> dict[str, Any]:
        return {"points": self.points}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.points = list(state_dict["points"])
        self._before = self.points[-1]["seconds"] if self.points else 0.0


def _as_csv(points: list[Point]) -> str:
    text = StringIO()
    writer = csv.DictWriter(text, list(points[0]))
    writer.writeheader()
    writer.writerows(points)
    return text.getvalue()


class Bar(Callback):
    """Show a progress bar over all steps, with the last validation scores."""

    def __init__(self, name: str, steps: int, scores: tuple[Score, ...]) -> None:
        self._scores = [score for score in scores if score.metric is not None]
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[scores]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._progress.add_task(name, total=steps, scores="")

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.is_global_zero:
            self._progress.start()

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self._progress.update(self._task, completed=trainer.global_step)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        found = trainer.callback_metrics
        scores = "  ".join(f"{score.title} {found[score.column]:.3f}" for score in self._scores)
        self._progress.update(self._task, scores=f"validation {scores}" if scores else "")

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self._progress.stop()
