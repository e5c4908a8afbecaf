"""The Small CNN Zoo of Unterthiner et al., "Predicting Neural Network Accuracy from Weights" (2020)."""

from __future__ import annotations

from collections.abc import Generator, Hashable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from graph_metanetworks.errors import ZooError
from graph_metanetworks.zoo.description import Description, versions
from graph_metanetworks.zoo.families.family import Task
from graph_metanetworks.zoo.families.small_cnn import ACTIVATIONS, SmallCnn
from graph_metanetworks.zoo.fill import fill
from graph_metanetworks.zoo.imported.small_cnn_files import Published, PublishedConfig
from graph_metanetworks.zoo.plan import Range, ShardPlan
from graph_metanetworks.zoo.recipe import Recipe, Trained
from graph_metanetworks.zoo.shard import Shard, encode
from graph_metanetworks.zoo.workers import Progress
from graph_metanetworks.zoo.zoo import Zoo

SHARD = 1024  # networks: they need not be trained, so shards are large
TASK = Task(channels=1, height=32, width=32, classes=10)  # grey images of any data set


class PublishedSmallCnns(Recipe[PublishedConfig]):
    """The networks of the Small CNN Zoo: already trained, so that they can only be built."""

    name = "published-small-cnns"

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings

    def settings(self) -> dict[str, Any]:
        return self._settings

    @classmethod
    def from_settings(cls, settings: dict[str, Any]) -> PublishedSmallCnns:
        return cls(settings)

    def draw(self, generator: torch.Generator) -> PublishedConfig:
        raise ZooError(
            "the networks of the Small CNN Zoo are published; the recipe small-cnns makes new ones."
        )

    def build(self, config: PublishedConfig) -> nn.Module:
        if config.activation not in ACTIVATIONS:
            raise ZooError(f"the networks use {' or '.join(ACTIVATIONS)}, not '{config.activation}'.")
        return SmallCnn(config.activation, TASK)

    def example(self, config: PublishedConfig) -> tuple[Tensor]:
        return (torch.zeros(1, TASK.channels, TASK.height, TASK.width),)

    def shape(self, config: PublishedConfig) -> Hashable:
        return config.activation

    def train(self, configs: Any, seeds: Any, progress: Any) -> list[Trained]:
        raise ZooError("the networks of the Small CNN Zoo are trained already.")


def import_small_cnns(
    path: str | PathLike[str],
    out: str | PathLike[str],
    *,
    all_steps: bool = False,
    half: bool = False,
    quiet: bool = False,
) -> Zoo:
    """Make a zoo of the published files of one data set: the networks as they were after the last step.

    Args:
        all_steps: keep the earlier steps too, as checkpoints.
        half: store weights in half precision.
        quiet: show no progress bar.
    """
    published = Published(Path(path), all_steps=all_steps)
    recipe = PublishedSmallCnns(published.provenance())
    asked = Description(
        recipe=f"{PublishedSmallCnns.__module__}:{PublishedSmallCnns.__qualname__}",
        settings=recipe.settings(),
        seed=0,
        ranges=(Range(0, len(published), SHARD),),
        half=half,
        versions=versions(),
    )

    def make(shards: Sequence[ShardPlan], progress: Progress) -> Generator[tuple[int, Shard], None, None]:
        for shard in shards:
            networks = [published.network(index) for population in shard.populations for index in population]
            yield shard.number, encode(networks, half=half)

    fill(Path(out), asked, lambda _: _shards(len(published)), make, quiet=quiet)
    return Zoo.open(out)


def _shards(count: int) -> list[ShardPlan]:
    starts = range(0, count, SHARD)
    return [ShardPlan(n, (tuple(range(a, min(a + SHARD, count))),)) for n, a in enumerate(starts)]
