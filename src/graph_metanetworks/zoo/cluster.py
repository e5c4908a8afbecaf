"""Train shards as tasks on a Ray cluster."""

from __future__ import annotations

import logging
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from graph_metanetworks.errors import ZooError
from graph_metanetworks.extras import optional_imports
from graph_metanetworks.zoo.plan import ShardPlan
from graph_metanetworks.zoo.shard import Shard
from graph_metanetworks.zoo.train import Job, train_shard
from graph_metanetworks.zoo.workers import Progress

RETRIES = 5  # per shard, if its worker is lost
PREFETCH = 2  # tasks submitted per core, so that no core idles while results are written


def train_on_ray(
    job: Job, ray: Any, shards: Sequence[ShardPlan], progress: Progress
) -> Generator[tuple[int, Shard], None, None]:
    """Yield shards as they finish. Only this process writes, so the machines need no shared disk."""
    _send_by_value(ray, job)
    task = ray.remote(num_cpus=1, max_retries=RETRIES)(_train)
    shared = ray.put(job)
    limit = PREFETCH * max(1, int(ray.cluster_resources().get("CPU", 1)))
    waiting = list(reversed(shards))
    running: list[Any] = []
    while waiting or running:
        while waiting and len(running) < limit:
            running.append(task.remote(shared, waiting.pop()))
        (done,), running = ray.wait(running)
        yield _result(ray, done)


def _train(job: Job, shard: ShardPlan) -> tuple[int, Shard]:
    return shard.number, train_shard(job, shard, lambda done: None)


def _result(ray: Any, done: Any) -> tuple[int, Shard]:
    try:
        return ray.get(done)
    except ray.exceptions.RayTaskError as error:
        raise ZooError(f"training failed on the cluster:\n{error}") from error
    except ray.exceptions.RayError as error:
        raise ZooError(
            f"the cluster lost a shard {RETRIES + 1} times: {error} Finished shards are safe. "
            "Rerun the same command to resume."
        ) from error


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """Connect to a Ray cluster and return the module `ray`."""
    with optional_imports():
        ray = import_module("ray")  # not type-checked, because it may be absent
    if ray.is_initialized():  # by the caller, who also shuts it down
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
    """Pickle a user's recipe by value, because other machines do not have its file."""
    name = type(job.recipe).__module__
    if not name.startswith("graph_metanetworks."):
        ray.cloudpickle.register_pickle_by_value(sys.modules[name])
