"""Train the networks of one shard, in this process, in a worker or on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch

from graph_metanetworks.errors import ZooError
from graph_metanetworks.zoo.plan import ShardPlan, draw
from graph_metanetworks.zoo.recipe import Recipe, network_seed
from graph_metanetworks.zoo.shard import Shard, TrainedNetwork, encode


@dataclass(frozen=True)
class Job:
    """Everything a worker needs to make any shard of a zoo."""

    recipe: Recipe[Any]
    seed: int
    half: bool
    drop_diverged: bool


def train_shard(job: Job, shard: ShardPlan, progress: Callable[[float], None]) -> Shard:
    """Train the networks of a shard. Call `progress` with the number of networks done."""
    networks: list[TrainedNetwork] = []
    with one_thread():
        for population in shard.populations:
            networks += _train(job, population, _Part(progress, len(networks), len(population)))
            progress(len(networks))
    kept = [n for n in networks if not (job.drop_diverged and n.trained.metrics.get("diverged"))]
    return replace(encode(kept, half=job.half), dropped=len(networks) - len(kept))


@dataclass(frozen=True)
class _Part:
    """Convert the progress of one population to progress of its shard."""

    progress: Callable[[float], None]
    before: int
    size: int

    def __call__(self, fraction: float) -> None:
        self.progress(self.before + fraction * self.size)


def _train(job: Job, population: tuple[int, ...], progress: Callable[[float], None]) -> list[TrainedNetwork]:
    configs = [draw(job.recipe, job.seed, index) for index in population]
    seeds = [network_seed(job.seed, index) for index in population]
    trained = job.recipe.train(configs, seeds, progress)
    if len(trained) != len(population):
        raise ZooError(
            f"{type(job.recipe).__name__}.train was given {len(population)} networks but returned "
            f"{len(trained)}. It must return all of them, in order."
        )
    return [TrainedNetwork(*fields) for fields in zip(population, configs, trained, strict=True)]


@contextmanager
def one_thread() -> Iterator[None]:
    """Use one thread, so that sums have the same order everywhere. Workers use the other cores."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
