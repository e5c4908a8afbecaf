"""Open and read a large zoo, compared with one file per network.

    python benchmarks/zoo_storage.py [--networks 30000]

A zoo of small untrained CNNs is written, and the first of them again as files of their own, which is how zoos
are often published. Times are of this machine; the ratio of two of them says more.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch import nn

from graph_metanetworks.table import Table
from graph_metanetworks.zoo import Recipe, Trained, Zoo, build

SINGLE = 1000  # networks that are also saved one by one


@dataclass(frozen=True)
class Config:
    family: str
    width: int
    rate: float


class Untrained(Recipe[Config]):
    """Untrained CNNs of three widths."""

    name = "untrained"

    def options(self) -> dict[str, Any]:
        return {}

    @classmethod
    def from_options(cls, options: dict[str, Any]) -> Untrained:
        return cls()

    def draw(self, generator: torch.Generator) -> Config:
        width = (24, 28, 32)[int(torch.randint(3, (), generator=generator))]
        return Config("cnn", width, float(torch.rand((), generator=generator)))

    def build(self, config: Config) -> nn.Module:
        width = config.width
        layers = [
            nn.Conv2d(3, width, 3),
            nn.BatchNorm2d(width),
            nn.Conv2d(width, width, 3),
            nn.BatchNorm2d(width),
        ]
        return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10))

    def shape(self, config: Config) -> int:
        return config.width

    def train(
        self, configs: Sequence[Config], seeds: Sequence[int], progress: Callable[[float], None]
    ) -> list[Trained]:
        metrics = [{"test_accuracy": config.rate, "test_loss": 1.0, "diverged": False} for config in configs]
        states = [self.build(config).state_dict() for config in configs]
        return [Trained(*pair) for pair in zip(states, metrics, strict=True)]


def seconds(work: Callable[[], object]) -> float:
    start = perf_counter()
    work()
    return perf_counter() - start


def weights_of(zoo: Zoo) -> Iterator[Any]:
    return (network.state_dict for network in zoo)


def read_all(states: Iterator[Any]) -> None:
    for _ in states:
        pass


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--networks", type=int, default=30_000)
    count = parser.parse_args().networks
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        writing = seconds(lambda: build(Untrained(), count, folder / "zoo", workers=1))
        zoo = Zoo.open(folder / "zoo")
        files = [folder / f"{number}.pt" for number in range(min(SINGLE, count))]
        for file, state in zip(files, weights_of(zoo), strict=False):
            torch.save(state, file)
        single = seconds(lambda: read_all(torch.load(file, weights_only=True) for file in files)) / len(files)

        opening = seconds(lambda: Zoo.open(folder / "zoo"))
        table = seconds(lambda: Zoo.open(folder / "zoo").table)
        fresh = Zoo.open(folder / "zoo")
        in_order = seconds(lambda: read_all(weights_of(fresh))) / count
        shuffled = fresh[torch.randperm(count)]
        at_random = seconds(lambda: read_all(weights_of(shuffled))) / count
        rows = [
            (
                "write the zoo, a network",
                f"{writing / count * 1e3:.2f} ms",
                f"{writing / count / single:.2f}",
            ),
            ("open the zoo", f"{opening:.3f} s", f"{opening / single:,.0f}"),
            ("open it and read the whole table", f"{table:.3f} s", f"{table / single:,.0f}"),
            (
                "read the weights of a network, in order",
                f"{in_order * 1e3:.3f} ms",
                f"{in_order / single:.2f}",
            ),
            (
                "read the weights of a network, at random",
                f"{at_random * 1e3:.3f} ms",
                f"{at_random / single:.2f}",
            ),
            ("torch.load of a file of its own", f"{single * 1e3:.3f} ms", "1"),
        ]
        size = f"{count:,} networks, {zoo.num_shards:,} shards, {zoo.num_bytes / 1e6:,.0f} MB"
        print(
            Table(size, ("what", "time", "times torch.load"), rows, right=("time", "times torch.load")).text()
        )


if __name__ == "__main__":
    main()
