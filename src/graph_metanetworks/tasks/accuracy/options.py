"""What decides the result of a run, and what only decides how it is computed."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from importlib.util import find_spec
from math import isfinite
from typing import Any

from graph_metanetworks.errors import TaskError
from graph_metanetworks.tasks.accuracy.data import LABEL
from graph_metanetworks.tasks.accuracy.methods import find_method
from graph_metanetworks.tasks.accuracy.module import Loss
from graph_metanetworks.tasks.defaults import BATCH_SIZE, PATIENCE, ROUNDS, STEPS

LOGGERS = ("csv", "tensorboard", "wandb")
PACKAGES = ("tensorboard", "wandb")  # that loggers need, of the same names


@dataclass(frozen=True)
class Options:
    """What decides the result.

    Args:
        size: "small" (about 50,000 parameters) or "paper" (about 750,000).
        setting: percentage of networks to train on, or "ood".
        learning_rate: that of the method if not given.
        steps: batches that are trained on.
        rounds: so many times scores are measured and a checkpoint is written.
        patience: rounds without a better validation R² after which training stops; 0 for never.
        seed: of the split, the initial weights and the order of networks.
    """

    method: str = "gmn"
    size: str = "small"
    setting: str = "80"
    label: str = LABEL
    loss: Loss = "bce"
    learning_rate: float | None = None
    steps: int = STEPS
    rounds: int = ROUNDS
    batch_size: int = BATCH_SIZE
    patience: int = PATIENCE
    seed: int = 0

    def __post_init__(self) -> None:
        method = find_method(self.method)
        if self.size not in method.sizes:
            raise TaskError(f"{self.method} has no size '{self.size}'; there are {', '.join(method.sizes)}.")
        if self.loss not in ("bce", "mse"):
            raise TaskError(f"there is no loss '{self.loss}': choose bce or mse.")
        for name in ("steps", "rounds", "batch_size"):
            if getattr(self, name) < 1:
                raise TaskError(f"{name} must be at least 1, not {getattr(self, name)}.")
        if self.learning_rate is not None and not (self.learning_rate > 0 and isfinite(self.learning_rate)):
            raise TaskError(f"a learning rate must be positive, such as 1e-3, not {self.learning_rate:g}.")
        if self.seed < 0:
            raise TaskError(f"a seed must be 0 or more, not {self.seed}.")
        if self.steps % self.rounds:
            raise TaskError(
                f"{self.steps} steps cannot be cut into {self.rounds} equal rounds: choose a multiple."
            )

    @property
    def rate(self) -> float:
        return find_method(self.method).learning_rate if self.learning_rate is None else self.learning_rate

    @property
    def steps_per_round(self) -> int:
        return self.steps // self.rounds

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"learning_rate": self.rate}


@dataclass(frozen=True)
class Machine:
    """How a run is computed; the result is the same up to rounding.

    Args:
        devices: processes or GPUs of each machine that train together.
        nodes: machines that train together; start the same command on each.
        accelerator: "cpu", "gpu" or "auto", as for Lightning.
        loggers: of "csv", "tensorboard" and "wandb".
        quiet: show no progress.
    """

    devices: int = 1
    nodes: int = 1
    accelerator: str = "cpu"
    loggers: tuple[str, ...] = ("csv",)
    quiet: bool = True

    def __post_init__(self) -> None:
        unknown = [name for name in self.loggers if name not in LOGGERS]
        if unknown:
            raise TaskError(f"there is no logger {', '.join(unknown)}; there are {', '.join(LOGGERS)}.")
        for name in self.loggers:
            if name in PACKAGES and find_spec(name) is None:
                raise TaskError(
                    f"the logger {name} needs a package that is not installed: "
                    f"pip install 'graph_metanetworks[{name}]'."
                )
