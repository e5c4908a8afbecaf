"""Hyper-parameters of training: those of each network, and the schedule that all networks share."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from graph_metanetworks.zoo.draws import Choice, LogUniform, Uniform, drawn


@dataclass(frozen=True)
class TrainingConfig:
    """The hyper-parameters of training, drawn as in the paper's appendix D.1."""

    learning_rate: float = drawn(LogUniform(1e-3, 1e-1))
    weight_decay: float = drawn(LogUniform(1e-5, 1e-2))
    label_smoothing: float = drawn(Uniform(0, 0.2))
    optimizer: str = drawn(Choice("sgd", "adam", "rmsprop"))


@dataclass(frozen=True)
class TrainingSchedule:
    """The number of steps, the learning-rate warm-up, and the steps at which networks are evaluated."""

    steps: int
    warmup: int  # steps until the full learning rate is reached
    checkpoints: tuple[int, ...] = ()  # steps after which weights and metrics are saved; may repeat

    def measures_after(self, step: int) -> bool:
        """Return whether networks are evaluated after `step` steps."""
        return step == self.steps or step in self.checkpoints

    def factor(self, step: int) -> float:
        """Return the factor of the learning rate in `step`: linear warm-up, then linear decay to zero.

        >>> [TrainingSchedule(steps=6, warmup=2).factor(step) for step in range(6)]
        [0.5, 1.0, 1.0, 0.75, 0.5, 0.25]
        """
        if step < self.warmup:
            return (step + 1) / self.warmup
        return (self.steps - step) / (self.steps - self.warmup)


def training_seed(seed: int) -> int:
    """Return the seed for initial weights and dropout.

    It is kept apart from `seed`, which draws the hyper-parameters.
    """
    digest = hashlib.blake2b(f"{seed}/training".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def start(build: Callable[[], nn.Module], seed: int) -> tuple[nn.Module, torch.Generator]:
    """Build a network after `torch.manual_seed`, and return it with the generator in its state afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(training_seed(seed))
        network = build()
        generator = torch.Generator()
        generator.set_state(torch.get_rng_state())
    return network.train(), generator
