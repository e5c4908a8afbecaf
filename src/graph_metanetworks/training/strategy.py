"""Training strategies: gradient descent, or one call that fits the model directly, as for trees."""

from __future__ import annotations

from abc import ABC, abstractmethod
from time import perf_counter
from typing import Any, Protocol, cast

from graph_metanetworks.extras import optional_imports
from graph_metanetworks.training.job import TrainingJob
from graph_metanetworks.training.options import Machine, TrainingOptions


class Strategy(ABC):
    """Train the model of a job in place."""

    has_learning_rate = True

    @abstractmethod
    def check(self, options: TrainingOptions, machine: Machine) -> None:
        """Refuse what cannot work, before anything is written."""

    @abstractmethod
    def train(self, job: TrainingJob) -> dict[str, Any]:
        """Train, and return facts for run.json, "seconds" among them."""


class GradientDescent(Strategy):
    """AdamW on batches of networks, with validation, checkpoints and early stopping."""

    def check(self, options: TrainingOptions, machine: Machine) -> None:
        with optional_imports():  # it imports Lightning
            from graph_metanetworks.training.gradient_descent import check_machine
        check_machine(options, machine)

    def train(self, job: TrainingJob) -> dict[str, Any]:
        with optional_imports():  # it imports Lightning
            from graph_metanetworks.training.gradient_descent import best_point, descend
        points = descend(job)
        best = best_point(points, job.objective.selection)
        return {"seconds": points[-1]["seconds"], "best_round": int(best["round"]), "rounds": len(points)}


GRADIENT_DESCENT = GradientDescent()


class DirectModel(Protocol):
    """A model that learns from all training networks in one call."""

    def learn(self, examples: Any, *, seed: int) -> None: ...


class DirectFit(Strategy):
    """Call `model.learn(examples, seed=...)` once, with batches of networks and their targets."""

    has_learning_rate = False

    def check(self, options: TrainingOptions, machine: Machine) -> None:
        """Accept any machine: the work is done in one process."""

    def train(self, job: TrainingJob) -> dict[str, Any]:
        start = perf_counter()
        cast(DirectModel, job.model).learn(job.examples(), seed=job.options.seed)
        return {"seconds": round(perf_counter() - start, 2)}
