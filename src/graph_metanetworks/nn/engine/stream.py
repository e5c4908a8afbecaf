"""The streaming engine: memory for nodes and one piece per worker, whatever the number of parameters."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from graph_metanetworks.nn.engine.panel import tiles
from graph_metanetworks.nn.engine.run import Plan


@dataclass(frozen=True)
class Workers:
    """A `map` over threads that keeps order, with few results in flight.

    Each thread has one torch thread: the products of a piece are too small to be shared between threads.
    """

    count: int
    progress: bool = False

    def __call__(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        items = list(items)
        before = torch.get_num_threads()
        torch.set_num_threads(1)  # here too: what a worker sets does not reach the libraries that torch calls
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        shown = self.progress and Console().is_terminal
        bar = Progress(*columns, disable=not shown, transient=True)
        with bar, ThreadPoolExecutor(self.count, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            task = bar.add_task("sweep", total=len(items))
            waiting: deque = deque()
            try:
                for item in items:
                    waiting.append(pool.submit(function, item))
                    if len(waiting) > 2 * self.count:
                        yield waiting.popleft().result()
                        bar.advance(task)
                while waiting:
                    yield waiting.popleft().result()
                    bar.advance(task)
            finally:
                for future in waiting:
                    future.cancel()
                torch.set_num_threads(before)


STREAM = Plan(
    keeps_edges=False,
    stacks_blocks=False,
    list_below=1_000,
    at_once_below=0,
    piece=1 << 20,
    regions=tiles,
    workers=Workers(1),
)


def streaming(workers: int | None = None, progress: bool = False) -> Plan:
    """The plan with one worker per core, or as many as given."""
    return replace(STREAM, workers=Workers(workers or torch.get_num_threads(), progress))
