"""Worker processes of this machine."""

from __future__ import annotations

import multiprocessing as mp
import os
import pickle
import signal
import threading
import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from time import monotonic

from graph_metanetworks.errors import ZooError
from graph_metanetworks.zoo.plan import ShardPlan
from graph_metanetworks.zoo.shard import Shard
from graph_metanetworks.zoo.train import Job, train_shard

Progress = Callable[[int, float], None]  # number of a shard, how many of its networks are done
BETWEEN = 0.2  # seconds between two reports of a worker


def train_here(
    job: Job, shards: Sequence[ShardPlan], progress: Progress
) -> Generator[tuple[int, Shard], None, None]:
    """One shard after the other in this process."""
    for shard in shards:
        try:
            made = train_shard(job, shard, lambda done, n=shard.number: progress(n, done))
        except ZooError:
            raise
        except Exception as error:
            raise _failed(shard.number, traceback.format_exc()) from error
        yield shard.number, made


def train_in_processes(
    job: Job, shards: Sequence[ShardPlan], progress: Progress, *, workers: int
) -> Generator[tuple[int, Shard], None, None]:
    """Shards as they are finished, each made by one of several processes."""
    with _started(job, min(workers, len(shards))) as processes:
        waiting = list(reversed(shards))
        at_work = {pipe: _hand(pipe, waiting.pop()) for pipe in processes}
        while at_work:
            for pipe in wait(list(at_work)):
                assert isinstance(pipe, Connection)
                number = at_work[pipe].number
                match _received(pipe, processes[pipe], number):
                    case float(done):
                        progress(number, done)
                    case str(failure):
                        raise _failed(number, failure)
                    case Shard() as shard:
                        del at_work[pipe]
                        if waiting:
                            at_work[pipe] = _hand(pipe, waiting.pop())
                        yield number, shard


def _failed(shard: int, failure: str) -> ZooError:
    return ZooError(
        f"training shard {shard} failed:\n{failure.rstrip()}\nFinished shards are safe: once the "
        "recipe is put right, the same command goes on."
    )


def _hand(pipe: Connection, shard: ShardPlan) -> ShardPlan:
    with suppress(ConnectionError):  # the worker has died, which is noticed when its answer is read
        pipe.send(shard)
    return shard


def _received(pipe: Connection, process: BaseProcess, number: int) -> float | str | Shard:
    try:
        return pipe.recv()
    except (EOFError, ConnectionError):
        process.join()
        raise ZooError(
            f"a worker died in shard {number} (exit code {process.exitcode}). If it was killed for want of "
            "memory, try fewer --workers. Finished shards are safe: the same command goes on."
        ) from None


@contextmanager
def _started(job: Job, count: int) -> Iterator[dict[Connection, BaseProcess]]:
    # not forked: torch has threads by now, and a fork would copy their locks as they happen to be
    context = mp.get_context("spawn")
    pickled = _pickled(job)
    processes: dict[Connection, BaseProcess] = {}
    try:
        for _ in range(count):
            ours, theirs = context.Pipe()
            process = context.Process(target=_work, args=(pickled, theirs), daemon=True)
            process.start()
            theirs.close()
            processes[ours] = process
        yield processes
    finally:
        for pipe, process in processes.items():
            process.terminate()
            process.join()
            pipe.close()


def _pickled(job: Job) -> bytes:
    try:
        return pickle.dumps(job)
    except Exception as error:
        raise ZooError(
            f"the recipe cannot be sent to worker processes: {error}. Define it in a file that can be "
            "imported, or build with one worker."
        ) from error


def _work(pickled: bytes, pipe: Connection) -> None:
    """Make the shards that come through the pipe, until it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; the first process sees to the others
    threading.Thread(target=_die_with_parent, daemon=True).start()
    try:
        job: Job = pickle.loads(pickled)
        while True:
            shard: ShardPlan = pipe.recv()
            pipe.send(train_shard(job, shard, _Reporter(pipe)))
    except EOFError:
        return
    except Exception:
        pipe.send(traceback.format_exc())


class _Reporter:
    """Sends progress, but not too often."""

    def __init__(self, pipe: Connection) -> None:
        self.pipe = pipe
        self.last = monotonic()

    def __call__(self, done: float) -> None:
        if monotonic() - self.last > BETWEEN:
            self.pipe.send(float(done))
            self.last = monotonic()


def _die_with_parent() -> None:
    """A parent that was killed cannot stop its workers."""
    parent = mp.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
