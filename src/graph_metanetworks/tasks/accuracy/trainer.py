"""Training by gradient descent with Lightning: checkpoints, early stopping, loggers, several processes."""

from __future__ import annotations

import logging
import signal
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import isfinite
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import LightningDataModule, Trainer
from lightning.pytorch.callbacks import Callback, EarlyStopping, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger, Logger, TensorBoardLogger, WandbLogger
from lightning.pytorch.strategies.launchers import _SubprocessScriptLauncher
from lightning.pytorch.utilities.exceptions import MisconfigurationException
from torch import nn
from torch.utils.data import DataLoader

from graph_metanetworks.errors import Diverged, TaskError
from graph_metanetworks.tasks.accuracy.callbacks import Bar, Curve, Point
from graph_metanetworks.tasks.accuracy.data import InOrder, LabelledZoo, Rounds, loader, require_shares
from graph_metanetworks.tasks.accuracy.module import AccuracyModule
from graph_metanetworks.tasks.accuracy.options import Machine, Options
from graph_metanetworks.tasks.accuracy.run_folder import CHECKPOINTS, CURVE, LOGS
from graph_metanetworks.tasks.accuracy.splits import Split
from graph_metanetworks.training.processes import leave_group_at_exit

SCORE = "val_r2"
BEST, LAST = "best.ckpt", "last.ckpt"
CLIP = 1.0  # largest norm of a gradient
ADVICE = (
    ".*does not have many workers.*",
    ".*Checkpoint directory .* exists and is not empty.*",
    ".*It is recommended to use .*sync_dist=True.*",
)


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


def check_machine(options: Options, machine: Machine) -> None:
    """Say what cannot work before a folder is claimed, and before other processes say it too."""
    require_shares(options.batch_size, machine.devices * machine.nodes)
    try:
        with _calm():
            Trainer(**_hardware(machine), logger=False, enable_checkpointing=False)
    except (MisconfigurationException, ValueError) as error:
        raise TaskError(
            f"cannot train with --accelerator {machine.accelerator} --devices {machine.devices} here: "
            f"{error} Choose cpu, or auto for what there is."
        ) from error


def fit_by_gradient(
    model: nn.Module, data: LabelledZoo, split: Split, options: Options, folder: Path, machine: Machine
) -> list[Point]:
    """Train until the end or until nothing improves; the model then has its best weights. The curve."""
    points = _points(folder / CHECKPOINTS / LAST)
    if not is_over(points, options):
        points = _train(model, data, split, options, folder, machine)
    if not any(isfinite(point.val_r2) for point in points):
        raise Diverged(
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
            **_hardware(machine),
            use_distributed_sampler=False,  # ours share batches out themselves
            max_epochs=options.rounds,
            gradient_clip_val=CLIP,
            callbacks=callbacks,
            logger=_loggers(folder / LOGS, machine.loggers),
            log_every_n_steps=options.steps_per_round,
            num_sanity_val_steps=0,
        )
        last = folder / CHECKPOINTS / LAST
        resumed = str(last) if last.exists() else None
        leave_group_at_exit()
        try:
            trainer.fit(module, AccuracyData(data, split, options), ckpt_path=resumed, weights_only=True)
        except SystemExit as error:  # Lightning's answer to Ctrl-C, after which it ignores another one
            if isinstance(trainer.strategy.launcher, _SubprocessScriptLauncher):
                # it has killed the other processes, and would kill this one when it misses them
                trainer.strategy.launcher.procs.clear()
            signal.signal(signal.SIGINT, signal.default_int_handler)
            raise KeyboardInterrupt from error
    return curve.points


def _hardware(machine: Machine) -> dict[str, Any]:
    """What Lightning must know of a machine."""
    return {
        "accelerator": machine.accelerator,
        "devices": machine.devices,
        "num_nodes": machine.nodes,
        # not one that looks for unused parameters: all have a gradient, whatever the batch
        "strategy": "ddp" if machine.devices * machine.nodes > 1 else "auto",
        "enable_progress_bar": False,
        "enable_model_summary": False,
    }


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
    # the next version when a run is resumed: loggers do not append
    return [makers[name](save_dir=folder, name=name) for name in names]


@contextmanager
def _calm() -> Iterator[None]:
    """Without Lightning's advice: it does not know that reading takes no time here.

    Nor does it know that the scores of several processes have been put together.
    """
    loggers = [logging.getLogger(name) for name in ("lightning.pytorch", "lightning.fabric")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            for advice in ADVICE:
                warnings.filterwarnings("ignore", advice)
            warnings.filterwarnings("ignore", ".*treespec, LeafSpec.*is deprecated", FutureWarning)
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
