"""Shards as tasks of a Ray cluster."""

from __future__ import annotations

import logging
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from graph_metanetworks.errors import ZooError
from graph_metanetworks.zoo.plan import ShardPlan
from graph_metanetworks.zoo.shard import Shard
from graph_metanetworks.zoo.train import Job, train_shard
from graph_metanetworks.zoo.workers import Progress

RETRIES = 5  # of a shard whose worker was lost
AHEAD = 2  # shards handed out for each core, so that none waits while results are written


def train_on_ray(
    job: Job, ray: Any, shards: Sequence[ShardPlan], progress: Progress
) -> Generator[tuple[int, Shard], None, None]:
    """Shards as they are finished; only this process writes them, so the machines need no common disk."""
    _send_by_value(ray, job)
    task = ray.remote(num_cpus=1, max_retries=RETRIES)(_make)
    shared = ray.put(job)
    limit = AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1)))
    waiting = list(reversed(shards))
    at_work: list[Any] = []
    while waiting or at_work:
        while waiting and len(at_work) < limit:
            at_work.append(task.remote(shared, waiting.pop()))
        (done,), at_work = ray.wait(at_work)
        yield _result(ray, done)


def _make(job: Job, shard: ShardPlan) -> tuple[int, Shard]:
    return shard.number, train_shard(job, shard, lambda done: None)


def _result(ray: Any, done: Any) -> tuple[int, Shard]:
    try:
        return ray.get(done)
    except ray.exceptions.RayTaskError as error:
        raise ZooError(f"training failed on the cluster:\n{error}") from error
    except ray.exceptions.RayError as error:
        raise ZooError(
            f"the cluster lost a shard {RETRIES + 1} times: {error} Finished shards are safe: the same "
            "command goes on."
        ) from error


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """Ray, connected to a cluster."""
    try:
        ray = import_module("ray")  # an extra, so it may not be there
    except ImportError as error:
        raise ZooError(
            "--ray needs Ray, which is not installed: pip install 'graph_metanetworks[ray]'."
        ) from error
    if ray.is_initialized():  # by the user, who also ends it
        yield ray
        return
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, include_dashboard=False)
    except Exception as error:
        raise ZooError(f"no Ray cluster at '{address}': {error}") from error
    try:
        yield ray
    finally:
        ray.shutdown()


def _send_by_value(ray: Any, job: Job) -> None:
    """A recipe of the user's own travels as code: other machines do not have its file."""
    name = type(job.recipe).__module__
    if not name.startswith("graph_metanetworks."):
        ray.cloudpickle.register_pickle_by_value(sys.modules[name])
