"""Recipes that are quick to train, for tests of everything but training."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import nn

from graph_metanetworks.zoo.recipe import Recipe, Trained


@dataclass(frozen=True)
class Config:
    family: str
    hidden: tuple[int, ...]
    rate: float


class Regressors(Recipe[Config]):
    """Small MLPs with a few steps of SGD on noise. Every fifth one is marked as diverged."""

    name = "regressors"
    population = 4

    def __init__(self, *, steps: int = 3, checkpoints: bool = False, pause: float = 0.0) -> None:
        if steps < 0:
            raise ValueError(f"steps must not be negative: {steps}")
        self.steps, self.checkpoints = steps, checkpoints
        self.pause = pause  # seconds per population, without effect on the result

    def options(self) -> dict[str, Any]:
        return {
            "steps": self.steps,
            "checkpoints": self.checkpoints,
            "data": {"name": "noise", "points": (8, 3)},
        }

    @classmethod
    def from_options(cls, options: dict[str, Any]) -> Regressors:
        return cls(steps=options["steps"], checkpoints=options["checkpoints"])

    def draw(self, generator: torch.Generator) -> Config:
        kind, rate = torch.rand(2, generator=generator).tolist()
        family, hidden = ("shallow", (5,)) if kind < 0.5 else ("deep", (4, 6))
        return Config(family, hidden, rate)

    def build(self, config: Config) -> nn.Module:
        widths = [3, *config.hidden]
        layers = [layer for a, b in pairwise(widths) for layer in (nn.Linear(a, b), nn.Tanh())]
        return nn.Sequential(*layers, nn.BatchNorm1d(widths[-1]), nn.Linear(widths[-1], 1))

    def shape(self, config: Config) -> Hashable:
        return config.family

    def train(
        self, configs: Sequence[Config], seeds: Sequence[int], progress: Callable[[float], None]
    ) -> list[Trained]:
        assert len({self.shape(config) for config in configs}) == 1
        assert torch.get_num_threads() == 1
        time.sleep(self.pause)
        trained = []
        for done, (config, seed) in enumerate(zip(configs, seeds, strict=True)):
            trained.append(self._one(config, seed))
            progress((done + 1) / len(configs))
        return trained

    def _one(self, config: Config, seed: int) -> Trained:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network, inputs = self.build(config), torch.randn(8, 3)
            targets, checkpoints = inputs.sum(1, keepdim=True), {}
            parameters = [*network.parameters()]
            for step in range(self.steps):
                if self.checkpoints:
                    checkpoints[step] = {name: x.clone() for name, x in network.state_dict().items()}
                loss = nn.functional.mse_loss(network(inputs), targets)
                gradients = torch.autograd.grad(loss, parameters)
                with torch.no_grad():  # torch.optim would import the compiler, for seconds in every worker
                    for parameter, gradient in zip(parameters, gradients, strict=True):
                        parameter -= 0.1 * config.rate * gradient
            loss = nn.functional.mse_loss(network.eval()(inputs), targets).item()
        metrics = {"test_accuracy": 1 / (1 + loss), "loss": loss, "diverged": seed % 5 == 0}
        return Trained(network.state_dict(), metrics, checkpoints)


class OnceKilled(Regressors):
    """The first worker that trains is killed, like a machine that is lost."""

    name = "once-killed"

    def __init__(self, *, marker: str, steps: int = 3) -> None:
        super().__init__(steps=steps)
        self.marker = marker

    def train(
        self, configs: Sequence[Config], seeds: Sequence[int], progress: Callable[[float], None]
    ) -> list[Trained]:
        try:
            Path(self.marker).touch(exist_ok=False)
        except FileExistsError:
            return super().train(configs, seeds, progress)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("unreachable")
