"""Workers that share out the pieces of a sweep: processes where they only sum, else threads.

Each takes every so many pieces, so that the order of sums is always the same. Each has one torch thread: the
products of a piece are too small to be shared between threads.
"""

from __future__ import annotations

import multiprocessing
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.sharedctypes import RawArray
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from graph_metanetworks.nn.engine.sweep import Place, Sums, Work

FEWEST_PIECES = 16  # of a worker: fewer are not worth one
LOOK = 0.2  # seconds between two looks at the progress of processes


@dataclass(frozen=True)
class Workers:
    """Several workers, with a progress bar if it is wanted and the output is a terminal."""

    count: int
    progress: bool = False

    def __call__(self, work: Work, places: Iterable[Place], *, writes: bool) -> list[Sums]:
        todo = list(places)
        use = self._processes if not writes and self._can_fork(len(todo)) else self._threads
        with _one_torch_thread(), self._bar(len(todo)) as advanced:
            return use(work, [todo[start :: self.count] for start in range(self.count)], advanced)

    def _can_fork(self, pieces: int) -> bool:
        """Processes start with all memory of this one; on other systems that is slow, or not safe."""
        if sys.platform != "linux" or multiprocessing.current_process().daemon:  # one of a DataLoader, say
            return False
        return self.count > 1 and pieces >= FEWEST_PIECES * self.count

    @contextmanager
    def _bar(self, total: int) -> Iterator[Callable[[int], None]]:
        """Shows how many pieces are done, when told."""
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        hidden = not (self.progress and Console().is_terminal)
        with Progress(*columns, disable=hidden, transient=True) as bar:
            task = bar.add_task("sweep", total=total)
            yield lambda done: bar.update(task, completed=done)

    def _threads(
        self, work: Work, shares: Sequence[list[Place]], advanced: Callable[[int], None]
    ) -> list[Sums]:
        done, stopped = [0] * self.count, threading.Event()

        def counted(number: int) -> Iterator[Place]:
            for place in shares[number]:
                if stopped.is_set():
                    return
                yield place
                done[number] += 1
                advanced(sum(done))

        def run(number: int) -> Sums:
            try:
                return work(counted(number))
            except BaseException:
                stopped.set()
                raise

        with ThreadPoolExecutor(self.count, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            try:
                return list(pool.map(run, range(self.count)))
            finally:
                stopped.set()

    def _processes(
        self, work: Work, shares: Sequence[list[Place]], advanced: Callable[[int], None]
    ) -> list[Sums]:
        """Python's lock, which threads wait for at every operation, is each process's own."""
        context, done = multiprocessing.get_context("fork"), RawArray("L", self.count)
        found: dict[int, Sums] = {}
        waiting: dict[Any, int] = {}
        processes = []
        try:
            for number, share in enumerate(shares):
                receiver, sender = context.Pipe(duplex=False)
                process = context.Process(
                    target=_send_sums, args=(sender, work, share, done, number), daemon=True
                )
                with warnings.catch_warnings():  # newer Pythons warn, as if more than one of our threads ran
                    warnings.simplefilter("ignore", DeprecationWarning)
                    process.start()
                sender.close()
                processes.append(process)
                waiting[receiver] = number
            while waiting:
                for receiver in wait(list(waiting), LOOK):
                    found[waiting.pop(receiver)] = _receive_sums(receiver)
                advanced(sum(done))
        finally:
            for process in processes:
                process.terminate()
                process.join()
        return [found[number] for number in range(self.count)]


def torch_threads(work: Work, places: Iterable[Place], *, writes: bool) -> list[Sums]:
    """As many workers as torch has threads, or all these threads for each operation if pieces are few."""
    todo, count = list(places), torch.get_num_threads()
    if count == 1 or len(todo) < FEWEST_PIECES * count:
        return [work(todo)]
    return Workers(count)(work, todo, writes=True)


def _send_sums(connection: Connection, work: Work, share: list[Place], done: Any, number: int) -> None:
    """What a process does."""

    def counted() -> Iterator[Place]:
        for count, place in enumerate(share, 1):
            yield place
            done[number] = count

    torch.set_num_threads(1)
    try:
        with torch.inference_mode():  # operations are found faster than where gradients are only switched off
            sums = work(counted())
        connection.send(([None if tensor is None else tensor.numpy() for tensor in sums], None))
    except BaseException as error:
        connection.send((None, error))


def _receive_sums(receiver: Any) -> Sums:
    try:
        arrays, error = receiver.recv()
    except EOFError:
        raise RuntimeError(
            "a process of the stream ended without a result; was it killed, or is memory short? "
            "workers=1 needs none."
        ) from None
    if error is not None:
        raise error
    return [None if array is None else torch.from_numpy(array) for array in arrays]


@contextmanager
def _one_torch_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # here too: what a thread sets does not reach the libraries that torch calls
    try:
        yield
    finally:
        torch.set_num_threads(before)
