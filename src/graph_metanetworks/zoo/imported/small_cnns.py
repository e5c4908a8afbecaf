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
from graph_metanetworks.zoo.families.family import ImageSpec
from graph_metanetworks.zoo.families.small_cnn import ACTIVATIONS, SmallCnn
from graph_metanetworks.zoo.fill import fill
from graph_metanetworks.zoo.imported.small_cnn_files import Published, PublishedConfig
from graph_metanetworks.zoo.plan import Range, ShardPlan
from graph_metanetworks.zoo.recipe import Recipe, Trained
from graph_metanetworks.zoo.shard import Shard, encode
from graph_metanetworks.zoo.workers import Progress
from graph_metanetworks.zoo.zoo import Zoo

SHARD = 1024  # networks per shard, many because they need no training
SPEC = ImageSpec(channels=1, height=32, width=32, classes=10)  # all data sets were converted to grey


class PublishedSmallCnns(Recipe[PublishedConfig]):
    """The networks of the Small CNN Zoo. They are already trained, so they can only be built."""

    name = "published-small-cnns"

    def __init__(self, options: dict[str, Any]) -> None:
        self._settings = options

    def options(self) -> dict[str, Any]:
        return self._settings

    @classmethod
    def from_options(cls, options: dict[str, Any]) -> PublishedSmallCnns:
        return cls(options)

    def draw(self, generator: torch.Generator) -> PublishedConfig:
        raise ZooError(
            "the networks of the Small CNN Zoo are fixed; use the recipe small-cnns to train new ones."
        )

    def build(self, config: PublishedConfig) -> nn.Module:
        if config.activation not in ACTIVATIONS:
            raise ZooError(f"the networks use {' or '.join(ACTIVATIONS)}, not '{config.activation}'.")
        return SmallCnn(config.activation, SPEC)

    def example(self, config: PublishedConfig) -> tuple[Tensor]:
        return (torch.zeros(1, SPEC.channels, SPEC.height, SPEC.width),)

    def shape(self, config: PublishedConfig) -> Hashable:
        return config.activation

    def train(self, configs: Any, seeds: Any, progress: Any) -> list[Trained]:
        raise ZooError("the networks of the Small CNN Zoo are already trained.")


def import_small_cnns(
    path: str | PathLike[str],
    out: str | PathLike[str],
    *,
    all_steps: bool = False,
    half: bool = False,
    quiet: bool = False,
) -> Zoo:
    """Import the published files of one data set, with the networks after their last step.

    Args:
        all_steps: also keep the earlier steps, as checkpoints.
        half: store weights in half precision.
        quiet: hide the progress bar.
    """
    published = Published(Path(path), all_steps=all_steps)
    recipe = PublishedSmallCnns(published.provenance())
    requested = Description(
        recipe=f"{PublishedSmallCnns.__module__}:{PublishedSmallCnns.__qualname__}",
        options=recipe.options(),
        seed=0,
        ranges=(Range(0, len(published), SHARD),),
        half=half,
        versions=versions(),
    )

    def make(shards: Sequence[ShardPlan], progress: Progress) -> Generator[tuple[int, Shard], None, None]:
        for shard in shards:
            networks = [published.network(index) for population in shard.populations for index in population]
            yield shard.number, encode(networks, half=half)

    fill(Path(out), requested, lambda _: _shards(len(published)), make, quiet=quiet)
    return Zoo.open(out)


def _shards(count: int) -> list[ShardPlan]:
    starts = range(0, count, SHARD)
    return [ShardPlan(n, (tuple(range(a, min(a + SHARD, count))),)) for n, a in enumerate(starts)]
