"""How classifiers are trained: what all networks of a zoo share, and what each has of its own."""

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
class Course:
    """What all networks share: how long they train, and when they are looked at."""

    steps: int
    warmup: int  # steps until the full learning rate
    checkpoints: tuple[int, ...] = ()  # steps after which weights and metrics are kept; some may be equal

    def looks_at(self, step: int) -> bool:
        """Whether networks are measured after so many steps."""
        return step == self.steps or step in self.checkpoints

    def rate(self, step: int) -> float:
        """The factor of learning rates in `step`: a linear rise, then a linear fall to zero.

        >>> [Course(steps=6, warmup=2).rate(step) for step in range(6)]
        [0.5, 1.0, 1.0, 0.75, 0.5, 0.25]
        """
        if step < self.warmup:
            return (step + 1) / self.warmup
        return (self.steps - step) / (self.steps - self.warmup)


def training_seed(seed: int) -> int:
    """Of initial weights and dropout. Not `seed` itself: the hyper-parameters were drawn with that."""
    digest = hashlib.blake2b(f"{seed}/training".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def start(build: Callable[[], nn.Module], seed: int) -> tuple[nn.Module, torch.Generator]:
    """A network as `torch.manual_seed` makes it, and the generator that goes on from there."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(training_seed(seed))
        network = build()
        generator = torch.Generator()
        generator.set_state(torch.get_rng_state())
    return network.train(), generator
