"""Workers that share the pieces of a sweep: processes if they only sum, threads otherwise.

Pieces are dealt out in turn, so the order of summation is deterministic. Each worker has one torch thread:
the matrix products of a piece are too small for several.
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

from graph_metanetworks.nn.engine.sweep import Piece, Sums, Work

MIN_PIECES = 16  # per worker: for fewer, starting it does not pay
POLL_SECONDS = 0.2  # how often the progress of processes is read


@dataclass(frozen=True)
class Workers:
    """Several workers, with an optional progress bar if the output is a terminal."""

    count: int
    progress: bool = False

    def __call__(self, work: Work, pieces: Iterable[Piece], *, writes: bool) -> list[Sums]:
        todo = list(pieces)
        use = self._processes if not writes and self._can_fork(len(todo)) else self._threads
        with _one_torch_thread(), self._bar(len(todo)) as report:
            return use(work, [todo[start :: self.count] for start in range(self.count)], report)

    def _can_fork(self, count: int) -> bool:
        """Forked processes share the memory of this one; other systems cannot fork, or not safely."""
        if sys.platform != "linux" or multiprocessing.current_process().daemon:  # as those of a DataLoader
            return False
        return self.count > 1 and count >= MIN_PIECES * self.count

    @contextmanager
    def _bar(self, total: int) -> Iterator[Callable[[int], None]]:
        """Show a progress bar; yield the function that sets the number of finished pieces."""
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        hidden = not (self.progress and Console().is_terminal)
        with Progress(*columns, disable=hidden, transient=True) as bar:
            task = bar.add_task("sweep", total=total)
            yield lambda done: bar.update(task, completed=done)

    def _threads(
        self, work: Work, shares: Sequence[list[Piece]], report: Callable[[int], None]
    ) -> list[Sums]:
        done, stopped = [0] * self.count, threading.Event()

        def counted(number: int) -> Iterator[Piece]:
            for piece in shares[number]:
                if stopped.is_set():
                    return
                yield piece
                done[number] += 1
                report(sum(done))

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
        self, work: Work, shares: Sequence[list[Piece]], report: Callable[[int], None]
    ) -> list[Sums]:
        """Run in processes, which do not wait for each other's interpreter lock at every operation."""
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
                with warnings.catch_warnings():  # newer Pythons warn of other threads; ours are idle
                    warnings.simplefilter("ignore", DeprecationWarning)
                    process.start()
                sender.close()
                processes.append(process)
                waiting[receiver] = number
            while waiting:
                for receiver in wait(list(waiting), POLL_SECONDS):
                    found[waiting.pop(receiver)] = _receive_sums(receiver)
                report(sum(done))
        finally:
            for process in processes:
                process.terminate()
                process.join()
        return [found[number] for number in range(self.count)]


def torch_threads(work: Work, pieces: Iterable[Piece], *, writes: bool) -> list[Sums]:
    """Use a worker per torch thread, or torch's own threads in each operation if pieces are few."""
    todo, count = list(pieces), torch.get_num_threads()
    if count == 1 or len(todo) < MIN_PIECES * count:
        return [work(todo)]
    return Workers(count)(work, todo, writes=True)


def _send_sums(connection: Connection, work: Work, share: list[Piece], done: Any, number: int) -> None:
    """Run a share of the pieces in a process and send its sums, or its error."""

    def counted() -> Iterator[Piece]:
        for count, piece in enumerate(share, 1):
            yield piece
            done[number] = count

    torch.set_num_threads(1)
    try:
        with torch.inference_mode():  # dispatch is faster than under no_grad
            sums = work(counted())
        connection.send(([None if tensor is None else tensor.numpy() for tensor in sums], None))
    except BaseException as error:
        connection.send((None, error))


def _receive_sums(receiver: Any) -> Sums:
    try:
        arrays, error = receiver.recv()
    except EOFError:
        raise RuntimeError(
            "a worker process of the stream died without a result. Was it killed, or did memory run out? "
            "workers=1 starts no process."
        ) from None
    if error is not None:
        raise error
    return [None if array is None else torch.from_numpy(array) for array in arrays]


@contextmanager
def _one_torch_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # in this thread too: the setting of a worker thread does not reach MKL
    try:
        yield
    finally:
        torch.set_num_threads(before)
