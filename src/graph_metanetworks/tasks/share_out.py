"""Share units of work out: one after the other in this process, or over a Ray cluster."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import Any, TypeVar

from graph_metanetworks.errors import TaskError
from graph_metanetworks.zoo.cluster import PREFETCH, RETRIES, connected

Part = TypeVar("Part")
T = TypeVar("T")


def share_out(
    work: Callable[[Part], T], cut: Callable[[int], Iterable[Part]], *, ray: str | None
) -> Iterator[T]:
    """Yield results in the order of the parts, whoever does them.

    Args:
        work: what to do with a part. A cluster needs to pickle it.
        cut: makes the parts, for a number of workers.
        ray: address of a Ray cluster; "local" starts one on this machine. Its machines must see the same
            files at the same paths. A part whose worker is lost is done again.
    """
    if ray is None:
        yield from map(work, cut(1))
        return
    with ExitStack() as stack:
        cluster = stack.enter_context(connected(ray))
        cores = max(1, int(cluster.cluster_resources().get("CPU", 1)))
        yield from _in_order(cluster, work, cut(cores), PREFETCH * cores)


def _in_order(ray: Any, work: Callable[[Part], T], parts: Iterable[Part], limit: int) -> Iterator[T]:
    """Submit at most `limit` parts ahead of the one that is waited for."""
    task = ray.remote(num_cpus=1, max_retries=RETRIES)(_do)
    shared, waiting, running = ray.put(work), iter(parts), deque[Any]()
    while True:
        while len(running) < limit and (part := next(waiting, None)) is not None:
            running.append(task.remote(shared, part))
        if not running:
            return
        yield _result(ray, running.popleft())


def _do(work: Callable[[Part], T], part: Part) -> T:
    return work(part)


def _result(ray: Any, submitted: Any) -> Any:
    try:
        return ray.get(submitted)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, ValueError):  # ours: it says what to do
            raise error.cause from None
        raise TaskError(f"a worker of the cluster failed:\n{error}") from error
    except ray.exceptions.RayError as error:
        raise TaskError(
            f"the cluster lost the same part {RETRIES + 1} times: {error} Rerun the command, with fewer "
            "networks at a time if workers run out of memory."
        ) from error
