"""The streaming engine: memory for nodes and one piece per worker, whatever the number of parameters."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from graph_metanetworks.nn.engine.panel import tiles
from graph_metanetworks.nn.engine.run import Plan
from graph_metanetworks.nn.engine.sweep import Place, Result


@dataclass(frozen=True)
class Threads:
    """Each thread takes every so many pieces, so that the order of sums is always the same.

    Each has one torch thread: the products of a piece are too small to be shared between threads.
    """

    count: int
    progress: bool = False

    def __call__(self, work: Callable[[Iterable[Place]], Result], places: Iterable[Place]) -> list[Result]:
        todo = list(places)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        bar = Progress(*columns, disable=not (self.progress and Console().is_terminal), transient=True)
        stopped = threading.Event()

        def share(start: int) -> Iterator[Place]:
            for place in todo[start :: self.count]:
                if stopped.is_set():
                    return
                yield place
                bar.advance(task)

        def run(start: int) -> Result:
            try:
                return work(share(start))
            except BaseException:
                stopped.set()
                raise

        before = torch.get_num_threads()
        torch.set_num_threads(1)  # here too: what a worker sets does not reach the libraries that torch calls
        with bar, ThreadPoolExecutor(self.count, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            task = bar.add_task("sweep", total=len(todo))
            try:
                return list(pool.map(run, range(self.count)))
            finally:
                stopped.set()
                torch.set_num_threads(before)


STREAM = Plan(
    keeps_edges=False,
    stacks_blocks=False,
    list_below=1_000,
    at_once_below=0,
    piece=1 << 19,
    regions=tiles,
    shares=Threads(1),
)


def streaming(workers: int | None = None, progress: bool = False) -> Plan:
    """The plan with one worker per core, or as many as given."""
    return replace(STREAM, shares=Threads(workers or torch.get_num_threads(), progress))
