"""Progress of a build: networks done, networks per second, elapsed and remaining time."""

from __future__ import annotations

from collections import deque
from datetime import timedelta
from time import monotonic
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Column
from rich.text import Text

WINDOW = 600.0  # seconds over which the speed is averaged, because families differ in speed
INTERVAL = 30.0  # seconds between two lines of output where there is no terminal


class Pace:
    """The speed of a build. Time without updates counts too, since shards of a cluster arrive rarely."""

    def __init__(self, total: int, done: float) -> None:
        self.total, self.done = total, done
        self.start = monotonic()
        self._history = deque([(self.start, done)])

    def update(self, done: float) -> None:
        now, self.done = monotonic(), done
        self._history.append((now, done))
        while len(self._history) > 2 and self._history[1][0] < now - WINDOW:
            self._history.popleft()

    def texts(self) -> list[str]:
        """Return networks per second (or per minute, if slow), elapsed time, and remaining time if known."""
        now = monotonic()
        time, done = self._history[0]
        speed = (self.done - done) / max(now - time, 1e-9)
        elapsed, remaining = now - self.start, (self.total - self.done) / speed if speed > 0 else 0
        rate = f"{speed:.1f}/s" if speed >= 1 else f"{speed * 60:.1f}/min"
        return [
            *([rate] if speed > 0 else []),
            f"elapsed {timedelta(seconds=round(elapsed))}",
            *([f"remaining {timedelta(seconds=round(remaining))}"] if remaining else []),
        ]


class Display:
    """A progress bar over all networks of a zoo, or an occasional line of text where there is no terminal."""

    def __init__(self, total: int, finished: int, *, quiet: bool = False) -> None:
        self._console = Console(stderr=True, highlight=False)
        bar = self._console.is_interactive or self._console.is_jupyter
        self._lines = not (bar or quiet)
        self._pace = Pace(total, finished)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            _PaceColumn(self._pace),
            console=self._console,
            disable=quiet or not bar,
            expand=True,
        )
        self._finished = finished
        self._partial: dict[int, float] = {}  # networks done in unfinished shards
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

    def update(self, shard: int, done: float) -> None:
        """Report how many networks of an unfinished shard are done."""
        self._partial[shard] = done
        self._show()

    def finish(self, shard: int, networks: int) -> None:
        """Report that a shard is finished."""
        self._partial.pop(shard, None)
        self._finished += networks
        self._show()

    def _show(self) -> None:
        self._pace.update(self._finished + sum(self._partial.values()))
        self._progress.update(self._task, completed=int(self._pace.done))
        if monotonic() >= self._next_line:
            self._print_line()

    def _print_line(self) -> None:
        self._next_line = monotonic() + INTERVAL
        if self._lines:
            done = f"{int(self._pace.done):,} of {self._pace.total:,} networks"
            self._console.print(", ".join([done, *self._pace.texts()]), soft_wrap=True)


class _PaceColumn(ProgressColumn):
    def __init__(self, pace: Pace) -> None:
        super().__init__(table_column=Column(no_wrap=True))
        self._pace = pace

    def render(self, task: Task) -> Text:
        return Text(" ".join(self._pace.texts()))
