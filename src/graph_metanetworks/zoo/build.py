"""Build a zoo: train the networks of a recipe."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any

from graph_metanetworks.errors import ZooError
from graph_metanetworks.zoo.cluster import connected, train_on_ray
from graph_metanetworks.zoo.description import Description, plain_options, versions
from graph_metanetworks.zoo.fill import TrainShards, fill
from graph_metanetworks.zoo.plan import draw, plan, range_of
from graph_metanetworks.zoo.recipe import Recipe
from graph_metanetworks.zoo.registry import reference_of
from graph_metanetworks.zoo.train import Job
from graph_metanetworks.zoo.workers import train_here, train_in_processes
from graph_metanetworks.zoo.zoo import Zoo


def build(
    recipe: Recipe[Any],
    count: int,
    out: str | os.PathLike[str],
    *,
    seed: int = 0,
    workers: int | None = None,
    half: bool = False,
    drop_diverged: bool = False,
    shard_size: int | None = None,
    ray: str | None = None,
    reference: str | None = None,
    quiet: bool = False,
) -> Zoo:
    """Build a zoo of `count` networks in a folder, or resume it. A larger count adds networks.

    Args:
        workers: processes on this machine, by default one per core. With 1, this process does the training.
        half: store weights in half precision.
        drop_diverged: leave out networks that are marked as diverged in their metrics.
        shard_size: networks per shard. An interruption loses at most one unfinished shard per worker.
        ray: address of a Ray cluster to train on; "local" starts one on this machine.
        reference: name of the recipe in zoo.json, by default its module and class.
        quiet: hide the progress bar.
    """
    if count < 1:
        raise ZooError(f"a zoo needs at least one network, not {count}.")
    for name, number in (("workers", workers), ("shard_size", shard_size)):
        if number is not None and number < 1:
            raise ZooError(f"{name} must be at least 1, not {number}.")
    _check_config(recipe, seed)
    requested = Description(
        recipe=reference or reference_of(recipe),
        options=plain_options(recipe.options()),
        seed=seed,
        ranges=(range_of(0, count, shard_size),),
        half=half,
        drop_diverged=drop_diverged,
        versions=versions(),
    )
    job = Job(recipe, seed=seed, half=half, drop_diverged=drop_diverged)
    with _trainer(job, workers, ray) as train:
        fill(
            Path(out),
            requested,
            lambda description: plan(recipe, seed, description.ranges),
            train,
            config_of=partial(draw, recipe, seed),
            shard_size=shard_size,
            quiet=quiet,
        )
    return Zoo.open(out, recipe=recipe)


def _check_config(recipe: Recipe[Any], seed: int) -> None:
    """Refuse configs that could not be read back, before any network is trained."""
    config = draw(recipe, seed, 0)
    if not is_dataclass(config):
        raise ZooError(
            f"{type(recipe).__name__}.draw returned {config!r}: a config must be a dataclass of plain "
            "values, whose fields become columns of the table."
        )
    recipe.config({entry.name: getattr(config, entry.name) for entry in fields(config)})


@contextmanager
def _trainer(job: Job, workers: int | None, ray: str | None) -> Iterator[TrainShards]:
    """Return a function that trains shards. The cluster is connected before anything is written."""
    count = workers or _cores()
    if ray is not None:
        with connected(ray) as cluster:
            yield partial(train_on_ray, job, cluster)
    elif count == 1:
        yield partial(train_here, job)
    else:
        yield partial(train_in_processes, job, workers=count)


def _cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
