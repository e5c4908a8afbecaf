"""Train shards in worker processes on this machine."""

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

Progress = Callable[[int, float], None]  # shard number, number of its networks that are done
INTERVAL = 0.2  # seconds between two progress reports of a worker


def train_here(
    job: Job, shards: Sequence[ShardPlan], progress: Progress
) -> Generator[tuple[int, Shard], None, None]:
    """Train one shard after the other in this process."""
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
    """Yield shards as they finish, each trained by one of several processes."""
    with _started(job, min(workers, len(shards))) as processes:
        waiting = list(reversed(shards))
        running = {pipe: _submit(pipe, waiting.pop()) for pipe in processes}
        while running:
            for pipe in wait(list(running)):
                assert isinstance(pipe, Connection)
                number = running[pipe].number
                match _received(pipe, processes[pipe], number):
                    case float(done):
                        progress(number, done)
                    case str(failure):
                        raise _failed(number, failure)
                    case Shard() as shard:
                        del running[pipe]
                        if waiting:
                            running[pipe] = _submit(pipe, waiting.pop())
                        yield number, shard


def _failed(shard: int, failure: str) -> ZooError:
    return ZooError(
        f"training shard {shard} failed:\n{failure.rstrip()}\nFinished shards are safe. Fix the "
        "recipe, then rerun the same command to resume."
    )


def _submit(pipe: Connection, shard: ShardPlan) -> ShardPlan:
    with suppress(ConnectionError):  # the worker has died, which is noticed when its result is read
        pipe.send(shard)
    return shard


def _received(pipe: Connection, process: BaseProcess, number: int) -> float | str | Shard:
    try:
        return pipe.recv()
    except (EOFError, ConnectionError):
        process.join()
        raise ZooError(
            f"a worker died in shard {number} (exit code {process.exitcode}). If it ran out of memory, try "
            "fewer --workers. Finished shards are safe. Rerun the same command to resume."
        ) from None


@contextmanager
def _started(job: Job, count: int) -> Iterator[dict[Connection, BaseProcess]]:
    # spawn, not fork: torch has started threads, and a fork would copy their locks in any state
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
    """Train the shards that arrive through the pipe, until it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the parent stops the workers
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
    """Send progress, but not too often."""

    def __init__(self, pipe: Connection) -> None:
        self.pipe = pipe
        self.last = monotonic()

    def __call__(self, done: float) -> None:
        if monotonic() - self.last > INTERVAL:
            self.pipe.send(float(done))
            self.last = monotonic()


def _die_with_parent() -> None:
    """Exit when the parent dies, because a parent that is killed cannot stop its workers."""
    parent = mp.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
