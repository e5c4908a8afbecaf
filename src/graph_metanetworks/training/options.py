"""Options of a run: those that affect its result, and those that only affect how it is computed.

Each field carries its help text. The command line derives its options from these dataclasses.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from math import isfinite
from typing import Any

from graph_metanetworks.errors import TaskError

LOGGERS = ("csv", "tensorboard", "wandb")
PACKAGES = ("tensorboard", "wandb")  # loggers that need a package of the same name
DEFAULT_RATE = 1e-3


def option(default: Any, help: str, *, least: int | None = None, name: str | None = None) -> Any:
    """Define a field with its help text, its smallest value, and its name on the command line.

    >>> @dataclass
    ... class Mine:
    ...     margin: float = option(0.5, "Margin of the loss.")
    >>> Mine().margin
    0.5
    """
    return field(default=default, metadata={"help": help, "least": least, "name": name})


@dataclass(frozen=True)
class TrainingOptions:
    """Options that affect the result of training. Tasks add their own in a subclass."""

    learning_rate: float | None = option(None, "Learning rate; the method's own by default.")
    steps: int = option(500, "Training steps, one batch each.", least=1)
    rounds: int = option(20, "Number of validations, each followed by a checkpoint.", least=1)
    batch_size: int = option(16, "Networks per batch.", least=1)
    weight_decay: float = option(0.1, "Weight decay of AdamW.")
    averaging: float = option(0.95, "Decay of the moving average of weights, which is what is kept; 0: none.")
    patience: int = option(10, "Rounds without a better score before training stops; 0: never.", least=0)
    seed: int = option(0, "Seed of the split, the initial weights and the order of networks.")

    def __post_init__(self) -> None:
        for name in ("steps", "rounds", "batch_size"):
            if getattr(self, name) < 1:
                raise TaskError(f"{name} must be at least 1, not {getattr(self, name)}.")
        if self.learning_rate is not None and not (self.learning_rate > 0 and isfinite(self.learning_rate)):
            raise TaskError(f"a learning rate must be positive, such as 1e-3, not {self.learning_rate:g}.")
        if not (self.weight_decay >= 0 and isfinite(self.weight_decay)):
            raise TaskError(f"weight_decay must be 0 or more, such as 0.1, not {self.weight_decay:g}.")
        if not 0 <= self.averaging < 1:
            raise TaskError(f"averaging is a decay, at least 0 and less than 1, not {self.averaging:g}.")
        if self.seed < 0:
            raise TaskError(f"a seed must be 0 or more, not {self.seed}.")
        if self.steps < self.rounds:  # a trial run: each step is a round
            object.__setattr__(self, "rounds", self.steps)
        if self.steps % self.rounds:
            nearest = max(1, round(self.steps / self.rounds)) * self.rounds
            raise TaskError(
                f"{self.steps} steps cannot be cut into {self.rounds} equal rounds: choose a multiple, such "
                f"as {nearest}."
            )

    @property
    def rate(self) -> float:
        """The learning rate to train with."""
        return DEFAULT_RATE if self.learning_rate is None else self.learning_rate

    @property
    def steps_per_round(self) -> int:
        return self.steps // self.rounds

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"learning_rate": self.rate}


@dataclass(frozen=True)
class Machine:
    """Hardware and loggers of a run. They do not change the result, except for rounding."""

    devices: int = option(1, "Processes or GPUs per machine.", least=1)
    nodes: int = option(1, "Machines; start the same command on each.", least=1)
    accelerator: str = option("cpu", "cpu, gpu or auto.")
    loggers: tuple[str, ...] = option(("csv",), f"{', '.join(LOGGERS)}; repeat for several.", name="logger")
    quiet: bool = option(True, "Hide progress.")

    def __post_init__(self) -> None:
        unknown = [name for name in self.loggers if name not in LOGGERS]
        if unknown:
            raise TaskError(f"there is no logger {', '.join(unknown)}; choose from {', '.join(LOGGERS)}.")
        for name in self.loggers:
            if name in PACKAGES and find_spec(name) is None:
                raise TaskError(
                    f"the logger {name} needs a package that is not installed: "
                    f"pip install 'graph_metanetworks[{name}]'."
                )
