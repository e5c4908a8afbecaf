"""Training by gradient descent with Lightning: checkpoints, early stopping, loggers, several processes."""

from __future__ import annotations

import logging
import os
import signal
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from math import isfinite
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import LightningDataModule, Trainer
from lightning.pytorch.callbacks import Callback, EarlyStopping, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger, Logger, TensorBoardLogger, WandbLogger
from torch import nn
from torch.utils.data import DataLoader

from graph_metanetworks.errors import TaskError
from graph_metanetworks.tasks.accuracy.callbacks import Bar, Curve, Point
from graph_metanetworks.tasks.accuracy.data import InOrder, LabelledZoo, Rounds, loader
from graph_metanetworks.tasks.accuracy.module import AccuracyModule
from graph_metanetworks.tasks.accuracy.options import Machine, Options
from graph_metanetworks.tasks.accuracy.run_folder import CHECKPOINTS, CURVE, LOGS
from graph_metanetworks.tasks.accuracy.splits import Split

SCORE = "val_r2"
BEST, LAST = "best.ckpt", "last.ckpt"
CLIP = 1.0  # largest norm of a gradient
PACKAGES = {"tensorboard": "tensorboard", "wandb": "wandb"}


class AccuracyData(LightningDataModule):
    """The training and validation part of a labelled zoo, shared by the processes that train together."""

    def __init__(self, data: LabelledZoo, split: Split, options: Options) -> None:
        super().__init__()
        self.data, self.split, self.options = data, split, options

    def train_dataloader(self) -> DataLoader:
        rounds = Rounds(
            self.split.train,
            self.options.batch_size,
            self.options.steps_per_round,
            self.options.seed,
            **self._process,
        )
        return loader(self.data, rounds)

    def val_dataloader(self) -> DataLoader:
        return loader(self.data, InOrder(self.split.validation, self.options.batch_size, **self._process))

    @property
    def _process(self) -> dict[str, int]:
        assert self.trainer is not None
        return {"rank": self.trainer.global_rank, "world": self.trainer.world_size}


def fit_by_gradient(
    model: nn.Module, data: LabelledZoo, split: Split, options: Options, folder: Path, machine: Machine
) -> list[Point]:
    """Train until the end or until nothing improves; the model then has its best weights. The curve."""
    points = _points(folder / CHECKPOINTS / LAST)
    if not is_over(points, options):
        points = _train(model, data, split, options, folder, machine)
    if not any(isfinite(point.val_r2) for point in points):
        raise TaskError(
            f"training diverged: the validation score was never finite at learning rate {options.rate:g}. "
            "Try a smaller --learning-rate, or --tune."
        )
    saved = torch.load(folder / CHECKPOINTS / BEST, map_location="cpu", weights_only=True)["state_dict"]
    model.cpu().load_state_dict({name.removeprefix("model."): value for name, value in saved.items()})
    return points


def is_over(points: Sequence[Point], options: Options) -> bool:
    """Whether there is nothing left to train: a run may be stopped after its last round, too."""
    if not points:
        return False
    scores = [point.val_r2 for point in points]
    if len(points) >= options.rounds or not options.patience:
        return len(points) >= options.rounds
    waited = len(scores) - 1 - scores.index(max(scores))
    return waited >= options.patience or not isfinite(scores[-1])


def _points(last: Path) -> list[Point]:
    """The learning curve until the last checkpoint."""
    if not last.exists():
        return []
    saved = torch.load(last, map_location="cpu", weights_only=True)
    return [Point(**point) for point in saved["callbacks"][Curve.__qualname__]["points"]]


def _train(
    model: nn.Module, data: LabelledZoo, split: Split, options: Options, folder: Path, machine: Machine
) -> list[Point]:
    module = AccuracyModule(model, learning_rate=options.rate, steps=options.steps, loss=options.loss)
    curve = Curve(folder / CURVE)
    best = ModelCheckpoint(
        folder / CHECKPOINTS,
        filename=Path(BEST).stem,
        monitor=SCORE,
        mode="max",
        save_last=True,
        save_on_train_epoch_end=True,
        enable_version_counter=False,
    )
    callbacks: list[Callback] = [curve, best, *_early_stopping(options)]
    if not machine.quiet:
        callbacks.append(Bar(options.method, options.steps))
    with _calm():
        trainer = Trainer(
            accelerator=machine.accelerator,
            devices=machine.devices,
            num_nodes=machine.nodes,
            # a batch may have no edge of some kind, so some parameters may have no gradient
            strategy="ddp_find_unused_parameters_true" if machine.devices * machine.nodes > 1 else "auto",
            use_distributed_sampler=False,  # ours share batches out themselves
            max_epochs=options.rounds,
            gradient_clip_val=CLIP,
            callbacks=callbacks,
            logger=_loggers(folder / LOGS, machine.loggers),
            log_every_n_steps=options.steps_per_round,
            num_sanity_val_steps=0,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        last = folder / CHECKPOINTS / LAST
        resumed = str(last) if last.exists() else None
        try:
            trainer.fit(module, AccuracyData(data, split, options), ckpt_path=resumed, weights_only=True)
        except SystemExit as error:  # Lightning's answer to Ctrl-C, after which it ignores another one
            signal.signal(signal.SIGINT, signal.default_int_handler)
            raise KeyboardInterrupt from error
    return curve.points


def _early_stopping(options: Options) -> list[Callback]:
    if not options.patience:
        return []
    return [
        EarlyStopping(
            SCORE, mode="max", patience=options.patience, check_on_train_epoch_end=True, check_finite=True
        )
    ]


def _loggers(folder: Path, names: tuple[str, ...]) -> list[Logger]:
    makers: dict[str, Any] = {"csv": CSVLogger, "tensorboard": TensorBoardLogger, "wandb": WandbLogger}
    for name in names:
        if name in PACKAGES and find_spec(PACKAGES[name]) is None:
            raise TaskError(
                f"the logger {name} needs a package that is not installed: "
                f"pip install 'graph_metanetworks[{name}]'."
            )
    # the next version when a run is resumed: loggers do not append
    return [makers[name](save_dir=folder, name=name) for name in names]


@contextmanager
def _calm() -> Iterator[None]:
    """Without Lightning's advice: it does not know that reading takes no time here."""
    logger = logging.getLogger("lightning.pytorch")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*does not have many workers.*")
            warnings.filterwarnings("ignore", ".*treespec, LeafSpec.*is deprecated", FutureWarning)
            warnings.filterwarnings("ignore", ".*Checkpoint directory .* exists and is not empty.*")
            yield
    finally:
        logger.setLevel(level)


def is_first_process() -> bool:
    """Whether this is the process that keeps the run folder; Lightning starts the others with their rank."""
    ranks = ("RANK", "SLURM_PROCID", "LOCAL_RANK", "NODE_RANK")
    return all(int(os.environ.get(name, 0)) == 0 for name in ranks)
