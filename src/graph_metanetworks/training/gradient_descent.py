"""Gradient descent with Lightning: checkpoints, early stopping, loggers, several processes."""

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
from lightning.pytorch.callbacks import Callback, EarlyStopping, EMAWeightAveraging, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger, Logger, TensorBoardLogger, WandbLogger
from lightning.pytorch.strategies.launchers import _SubprocessScriptLauncher
from lightning.pytorch.utilities.exceptions import MisconfigurationException
from torch.utils.data import DataLoader

from graph_metanetworks.errors import Diverged, TaskError
from graph_metanetworks.training.callbacks import Bar, Curve, Point
from graph_metanetworks.training.job import TrainingJob
from graph_metanetworks.training.module import TrainingModule
from graph_metanetworks.training.objective import Score, followed
from graph_metanetworks.training.options import Machine, TrainingOptions
from graph_metanetworks.training.processes import leave_group_at_exit
from graph_metanetworks.training.run_folder import CHECKPOINTS, CURVE, LOGS
from graph_metanetworks.training.samplers import InOrder, Rounds, loader, require_equal_shares

BEST, LAST = "best.ckpt", "last.ckpt"
CLIP = 1.0  # largest norm of a gradient
ADVICE = (
    ".*does not have many workers.*",
    ".*Checkpoint directory .* exists and is not empty.*",
    ".*It is recommended to use .*sync_dist=True.*",
)


def check_machine(options: TrainingOptions, machine: Machine) -> None:
    """Refuse what cannot work before a folder is claimed and before other processes start."""
    require_equal_shares(options.batch_size, machine.devices * machine.nodes)
    try:
        with _without_advice():
            Trainer(**_hardware(machine), logger=False, enable_checkpointing=False)
    except (MisconfigurationException, ValueError) as error:
        raise TaskError(
            f"cannot train with --accelerator {machine.accelerator} --devices {machine.devices} here: "
            f"{error} Choose cpu, or auto for what there is."
        ) from error


def descend(job: TrainingJob) -> list[Point]:
    """Train to the end or until nothing improves, leave the best weights in the model, return the curve."""
    score = job.objective.selection
    points = _points(job.folder / CHECKPOINTS / LAST)
    if not is_over(points, job.options, score):
        points = _train(job)
    if not any(isfinite(point[score.column]) for point in points):
        raise Diverged(
            f"training diverged: the validation score was never finite at learning rate "
            f"{job.options.rate:g}. Try a smaller --learning-rate, or --tune."
        )
    saved = torch.load(job.folder / CHECKPOINTS / BEST, map_location="cpu", weights_only=True)["state_dict"]
    own = {name.removeprefix("model."): value for name, value in saved.items() if name.startswith("model.")}
    job.model.load_state_dict(own)
    return points


def best_point(points: Sequence[Point], score: Score) -> Point:
    """Return the round with the best score."""
    return max(points, key=lambda point: score.better(point[score.column]))


def is_over(points: Sequence[Point], options: TrainingOptions, score: Score) -> bool:
    """Whether training has ended: a run may also be interrupted after its last round."""
    if not points:
        return False
    values = [score.better(point[score.column]) for point in points]
    if len(values) >= options.rounds:
        return True
    waited = len(values) - 1 - values.index(max(values))
    return bool(options.patience) and (waited >= options.patience or not isfinite(values[-1]))


def _points(last: Path) -> list[Point]:
    """Read the learning curve up to the last checkpoint."""
    if not last.exists():
        return []
    saved = torch.load(last, map_location="cpu", weights_only=True)
    return list(saved["callbacks"][Curve.__qualname__]["points"])


def _train(job: TrainingJob) -> list[Point]:
    options, machine, score = job.options, job.machine, job.objective.selection
    module = TrainingModule(job.model, job.objective, options)
    curve = Curve(job.folder / CURVE, followed(job.objective))
    best = ModelCheckpoint(
        job.folder / CHECKPOINTS,
        filename=Path(BEST).stem,
        monitor=score.column,
        mode=_mode(score),
        save_last=True,
        save_on_train_epoch_end=True,
        enable_version_counter=False,
    )
    callbacks: list[Callback] = [*_averaging(options), curve, best, *_early_stopping(options, score)]
    if not machine.quiet:
        callbacks.append(Bar(job.name, options.steps, job.objective.scores))
    with _without_advice():
        trainer = Trainer(
            **_hardware(machine),
            use_distributed_sampler=False,  # our samplers share batches out themselves
            max_epochs=options.rounds,
            gradient_clip_val=CLIP,
            callbacks=callbacks,
            logger=_loggers(job.folder / LOGS, machine.loggers),
            log_every_n_steps=options.steps_per_round,
            num_sanity_val_steps=0,
        )
        last = job.folder / CHECKPOINTS / LAST
        resumed = str(last) if last.exists() else None
        leave_group_at_exit()
        try:
            trainer.fit(module, TrainingData(job), ckpt_path=resumed, weights_only=True)
        except SystemExit as error:  # Lightning's answer to Ctrl-C, after which it ignores another one
            if isinstance(trainer.strategy.launcher, _SubprocessScriptLauncher):
                # it has killed the other processes, and would kill this one because they are missing
                trainer.strategy.launcher.procs.clear()
            signal.signal(signal.SIGINT, signal.default_int_handler)
            raise KeyboardInterrupt from error
    job.model.to(trainer.strategy.root_device)  # Lightning has moved it to the CPU
    return curve.points


class TrainingData(LightningDataModule):
    """The training and validation part of a job, shared by the processes that train together."""

    def __init__(self, job: TrainingJob) -> None:
        super().__init__()
        self.job = job

    def train_dataloader(self) -> DataLoader:
        options, positions = self.job.options, self.job.split.train
        rounds = Rounds(positions, options.batch_size, options.steps_per_round, options.seed, **self._process)
        return loader(self.job.data, rounds)

    def val_dataloader(self) -> DataLoader:
        batches = InOrder(self.job.split.validation, self.job.options.batch_size, **self._process)
        return loader(self.job.data, batches)

    @property
    def _process(self) -> dict[str, int]:
        assert self.trainer is not None
        return {"rank": self.trainer.global_rank, "world": self.trainer.world_size}


def _hardware(machine: Machine) -> dict[str, Any]:
    """Arguments of Lightning's Trainer for a machine."""
    return {
        "accelerator": machine.accelerator,
        "devices": machine.devices,
        "num_nodes": machine.nodes,
        # not the one that looks for unused parameters: all have a gradient, whatever the batch
        "strategy": "ddp" if machine.devices * machine.nodes > 1 else "auto",
        "enable_progress_bar": False,
        "enable_model_summary": False,
    }


def _mode(score: Score) -> str:
    return "max" if score.higher_is_better else "min"


def _averaging(options: TrainingOptions) -> list[Callback]:
    """Validate and save a moving average of the weights: single steps on few networks are noisy."""
    # buffers are fitted before training and do not change
    return [EMAWeightAveraging(decay=options.averaging, use_buffers=False)] if options.averaging else []


def _early_stopping(options: TrainingOptions, score: Score) -> list[Callback]:
    if not options.patience:
        return []
    return [
        EarlyStopping(
            score.column,
            mode=_mode(score),
            patience=options.patience,
            check_on_train_epoch_end=True,
            check_finite=True,
        )
    ]


def _loggers(folder: Path, names: tuple[str, ...]) -> list[Logger]:
    makers: dict[str, Any] = {"csv": CSVLogger, "tensorboard": TensorBoardLogger, "wandb": WandbLogger}
    # a resumed run gets the next version: loggers do not append
    return [makers[name](save_dir=folder, name=name) for name in names]


@contextmanager
def _without_advice() -> Iterator[None]:
    """Silence Lightning's advice, which is wrong here: reading takes no time, and scores are synchronised."""
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
