"""A zoo that is made in no time: networks whose accuracy is, by decree, how large their weights are."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from graph_metanetworks.tasks.accuracy import LabelledZoo, TracedZoo
from graph_metanetworks.zoo import Recipe, Trained, Zoo, build

HIDDEN = {"shallow": (4, 6), "deep": (3, 5)}


@dataclass(frozen=True)
class Config:
    family: str
    hidden: int
    size: float  # of weights
    rate: float  # a hyper-parameter that decides nothing


class ScaledNetworks(Recipe[Config]):
    """MLPs of two families and two widths each."""

    name = "scaled"
    population = 8

    def __init__(self, *, broken: int = 0, one_size: bool = False) -> None:
        self.broken, self.one_size = broken, one_size  # every so many networks have NaN weights

    def options(self) -> dict[str, Any]:
        return {"broken": self.broken, "one_size": self.one_size}

    @classmethod
    def from_options(cls, options: dict[str, Any]) -> ScaledNetworks:
        return cls(**options)

    def draw(self, generator: torch.Generator) -> Config:
        kind, width, size, rate = torch.rand(4, generator=generator).tolist()
        family = "shallow" if kind < 0.5 else "deep"
        hidden = HIDDEN[family][0 if self.one_size else int(width < 0.5)]
        return Config(family, hidden, size, rate)

    def build(self, config: Config) -> nn.Module:
        widths = [2, *[config.hidden] * (1 if config.family == "shallow" else 2)]
        layers = [layer for a, b in pairwise(widths) for layer in (nn.Linear(a, b), nn.ReLU())]
        return nn.Sequential(*layers, nn.Linear(widths[-1], 3))

    def example(self, config: Config) -> tuple[Tensor]:
        return (torch.zeros(1, 2),)

    def shape(self, config: Config) -> Hashable:
        return config.family, config.hidden

    def train(
        self, configs: Sequence[Config], seeds: Sequence[int], progress: Callable[[float], None]
    ) -> list[Trained]:
        return [self._one(*pair) for pair in zip(configs, seeds, strict=True)]

    def _one(self, config: Config, seed: int) -> Trained:
        generator = torch.Generator().manual_seed(seed)
        like = self.build(config).state_dict()
        weights = {
            name: (0.2 + config.size) * torch.randn(x.shape, generator=generator) for name, x in like.items()
        }
        if self.broken and seed % self.broken == 0:
            weights["0.weight"][0, 0] = torch.nan
        noise = 0.02 * float(torch.randn((), generator=generator))
        accuracy = min(max(0.1 + 0.8 * config.size + noise, 0.0), 1.0)
        metrics = {"test_accuracy": accuracy, "train_loss": 1 - accuracy + noise, "train_accuracy": accuracy}
        return Trained(weights, metrics)


def scaled_zoo(folder: Path, count: int = 60, **options: Any) -> Zoo:
    return build(ScaledNetworks(**options), count, folder, workers=1, quiet=True)


def labelled(zoo: Zoo) -> LabelledZoo:
    return LabelledZoo(TracedZoo(zoo))
