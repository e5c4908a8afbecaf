"""How far a build is: networks done, networks per second, time taken and left."""

from __future__ import annotations

from datetime import timedelta
from time import monotonic
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Column
from rich.text import Text

WINDOW = 600.0  # seconds over which the speed is measured: shards of different families differ
BETWEEN = 30.0  # seconds between two lines, where there is no terminal for a bar


class Display:
    """A progress bar over all networks of a zoo, or a line now and then; `quiet` shows nothing."""

    def __init__(self, total: int, finished: int, *, quiet: bool = False) -> None:
        self._console = Console(stderr=True, highlight=False)
        bar = self._console.is_interactive or self._console.is_jupyter
        self._lines = not (bar or quiet)
        self._next_line = monotonic() + BETWEEN
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            _Speed(table_column=Column(no_wrap=True)),
            console=self._console,
            speed_estimate_period=WINDOW,
            disable=quiet or not bar,
            expand=True,
        )
        self._finished = finished
        self._partly: dict[int, float] = {}  # networks done in shards that are not finished
        self._task = self._progress.add_task("networks", total=total, completed=finished)

    def __enter__(self) -> Self:
        self._progress.start()
        self._print_line()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()
        self._print_line()

    def partly(self, shard: int, done: float) -> None:
        self._partly[shard] = done
        self._show()

    def finished(self, shard: int, networks: int) -> None:
        self._partly.pop(shard, None)
        self._finished += networks
        self._show()

    def _show(self) -> None:
        done = self._finished + sum(self._partly.values())
        self._progress.update(self._task, completed=int(done))
        if monotonic() >= self._next_line:
            self._print_line()

    def _print_line(self) -> None:
        if not self._lines:
            return
        task = self._progress.tasks[0]
        parts = (f"{int(task.completed):,} of {int(task.total or 0):,} networks", *speed(task))
        self._console.print(", ".join(parts), soft_wrap=True)
        self._next_line = monotonic() + BETWEEN


class _Speed(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(" ".join(speed(task)))


def speed(task: Task) -> list[str]:
    """Networks per second, or per minute where they take long; time taken; time left, once it is known."""
    per_second = task.finished_speed or task.speed
    parts = []
    if per_second:
        parts.append(f"{per_second:.1f}/s" if per_second >= 1 else f"{per_second * 60:.1f}/min")
    parts.append(f"took {timedelta(seconds=int(task.finished_time or task.elapsed or 0))}")
    if task.time_remaining and not task.finished:
        parts.append(f"left {timedelta(seconds=int(task.time_remaining))}")
    return parts
