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
from graph_metanetworks.zoo.description import Description, as_json, versions
from graph_metanetworks.zoo.fill import Maker, fill
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
    """Build a zoo of `count` networks in a folder, or go on with it; a larger count adds networks.

    Args:
        workers: processes of this machine, one for each core if not given; with 1 this process trains itself.
        half: store weights in half precision.
        drop_diverged: leave out networks whose metrics say that they diverged.
        shard_size: networks of a shard; what is lost of a worker that is stopped.
        ray: address of a Ray cluster that trains instead of this machine; "local" starts one here.
        reference: how zoo.json names the recipe, by default by its module and class.
        quiet: show no progress bar.
    """
    if count < 1:
        raise ZooError(f"a zoo needs at least one network, not {count}.")
    for name, number in (("workers", workers), ("shard_size", shard_size)):
        if number is not None and number < 1:
            raise ZooError(f"{name} must be at least 1, not {number}.")
    _check_config(recipe, seed)
    asked = Description(
        recipe=reference or reference_of(recipe),
        settings=as_json(recipe.settings()),
        seed=seed,
        ranges=(range_of(0, count, shard_size),),
        half=half,
        drop_diverged=drop_diverged,
        versions=versions(),
    )
    job = Job(recipe, seed=seed, half=half, drop_diverged=drop_diverged)
    with _maker(job, workers, ray) as maker:
        fill(
            Path(out),
            asked,
            lambda description: plan(recipe, seed, description.ranges),
            maker,
            drawn=partial(draw, recipe, seed),
            shard_size=shard_size,
            quiet=quiet,
        )
    return Zoo.open(out, recipe=recipe)


def _check_config(recipe: Recipe[Any], seed: int) -> None:
    """Configs must be such that they can be read again: better said now than when the zoo is used."""
    config = draw(recipe, seed, 0)
    if not is_dataclass(config):
        raise ZooError(
            f"{type(recipe).__name__}.draw returned {config!r}: a config must be a dataclass of plain "
            "values, whose fields are columns of the table."
        )
    recipe.config({entry.name: getattr(config, entry.name) for entry in fields(config)})


@contextmanager
def _maker(job: Job, workers: int | None, ray: str | None) -> Iterator[Maker]:
    """What trains, ready before anything is written."""
    count = workers or _cores()
    if ray is not None:
        with connected(ray) as cluster:
            yield partial(train_on_ray, job, cluster)
    elif count == 1:
        yield partial(train_here, job)
    else:
        yield partial(train_in_processes, job, workers=count)


def _cores() -> int:
    """The cores that this process may use, where the system says so."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
