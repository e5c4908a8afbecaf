"""Train the networks of one shard: what every worker does, wherever it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch

from graph_metanetworks.errors import ZooError
from graph_metanetworks.zoo.plan import ShardPlan, draw
from graph_metanetworks.zoo.recipe import Recipe, network_seed
from graph_metanetworks.zoo.shard import Network, Shard, encode


@dataclass(frozen=True)
class Job:
    """All that a worker needs to make any shard of a zoo."""

    recipe: Recipe[Any]
    seed: int
    half: bool
    drop_diverged: bool


def train_shard(job: Job, shard: ShardPlan, progress: Callable[[float], None]) -> Shard:
    """The files of a shard. `progress` is told how many of its networks are done."""
    networks: list[Network] = []
    with one_thread():
        for population in shard.populations:
            networks += _train(job, population, _Part(progress, len(networks), len(population)))
            progress(len(networks))
    kept = [n for n in networks if not (job.drop_diverged and n.trained.metrics.get("diverged"))]
    return replace(encode(kept, half=job.half), dropped=len(networks) - len(kept))


@dataclass(frozen=True)
class _Part:
    """The progress of one population, as progress of its shard."""

    progress: Callable[[float], None]
    before: int
    size: int

    def __call__(self, share: float) -> None:
        self.progress(self.before + share * self.size)


def _train(job: Job, population: tuple[int, ...], progress: Callable[[float], None]) -> list[Network]:
    configs = [draw(job.recipe, job.seed, index) for index in population]
    seeds = [network_seed(job.seed, index) for index in population]
    trained = job.recipe.train(configs, seeds, progress)
    if len(trained) != len(population):
        raise ZooError(
            f"{type(job.recipe).__name__}.train was given {len(population)} networks and returned "
            f"{len(trained)}: it must return all, in order."
        )
    return [Network(*fields) for fields in zip(population, configs, trained, strict=True)]


@contextmanager
def one_thread() -> Iterator[None]:
    """Sums are taken in the same order everywhere; the cores are used by several workers."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
