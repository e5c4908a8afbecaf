"""What happens beside training: the learning curve is kept, and progress is shown."""

from __future__ import annotations

import csv
from dataclasses import asdict, dataclass
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

from graph_metanetworks.tasks.accuracy.run_folder import write_whole


@dataclass(frozen=True)
class Point:
    """A round of the learning curve."""

    round: int
    step: int
    seconds: float
    learning_rate: float
    train_loss: float
    val_loss: float
    val_r2: float
    val_tau: float


class Curve(Callback):
    """Writes `curve.csv` after each round. It is part of checkpoints: a resumed run has all of it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.points: list[Point] = []
        self._since = perf_counter()
        self._before = 0.0  # seconds of training before this process

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._since = perf_counter()

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        found = trainer.callback_metrics
        self.points.append(
            Point(
                round=trainer.current_epoch + 1,
                step=trainer.global_step,
                seconds=round(self._before + perf_counter() - self._since, 2),
                learning_rate=float(trainer.optimizers[0].param_groups[0]["lr"]),
                **{name: float(found[name]) for name in ("train_loss", "val_loss", "val_r2", "val_tau")},
            )
        )
        if trainer.is_global_zero:
            write_whole(self.path, _table(self.points))

    def state_dict(self) -> dict[str, Any]:
        return {"points": [asdict(point) for point in self.points]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.points = [Point(**point) for point in state_dict["points"]]
        self._before = self.points[-1].seconds if self.points else 0.0


def _table(points: list[Point]) -> str:
    text = StringIO()
    rows = [asdict(point) for point in points]
    writer = csv.DictWriter(text, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


class Bar(Callback):
    """A bar over all steps, with the last validation scores."""

    def __init__(self, name: str, steps: int) -> None:
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
        scores = f"validation R² {found['val_r2']:.3f}  tau {found['val_tau']:.3f}"
        self._progress.update(self._task, scores=scores)

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self._progress.stop()
