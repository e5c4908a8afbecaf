"""How far a build is: networks done, networks per second, time taken and left."""

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

WINDOW = 600.0  # seconds over which the speed is measured: shards of different families differ
BETWEEN = 30.0  # seconds between two lines, where there is no terminal for a bar


class Pace:
    """How fast networks are made. Time without news counts too: shards of a cluster come rarely."""

    def __init__(self, total: int, done: float) -> None:
        self.total, self.done = total, done
        self.began = monotonic()
        self._moments = deque([(self.began, done)])

    def reach(self, done: float) -> None:
        now, self.done = monotonic(), done
        self._moments.append((now, done))
        while len(self._moments) > 2 and self._moments[1][0] < now - WINDOW:
            self._moments.popleft()

    def texts(self) -> list[str]:
        """Networks per second, or per minute where they take long; time taken; time left, if it is known."""
        now = monotonic()
        time, done = self._moments[0]
        speed = (self.done - done) / max(now - time, 1e-9)
        taken, left = now - self.began, (self.total - self.done) / speed if speed > 0 else 0
        rate = f"{speed:.1f}/s" if speed >= 1 else f"{speed * 60:.1f}/min"
        return [
            *([rate] if speed > 0 else []),
            f"took {timedelta(seconds=round(taken))}",
            *([f"left {timedelta(seconds=round(left))}"] if left else []),
        ]


class Display:
    """A progress bar over all networks of a zoo, or a line now and then; `quiet` shows nothing."""

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
        self._pace.reach(self._finished + sum(self._partly.values()))
        self._progress.update(self._task, completed=int(self._pace.done))
        if monotonic() >= self._next_line:
            self._print_line()

    def _print_line(self) -> None:
        self._next_line = monotonic() + BETWEEN
        if self._lines:
            done = f"{int(self._pace.done):,} of {self._pace.total:,} networks"
            self._console.print(", ".join([done, *self._pace.texts()]), soft_wrap=True)


class _PaceColumn(ProgressColumn):
    def __init__(self, pace: Pace) -> None:
        super().__init__(table_column=Column(no_wrap=True))
        self._pace = pace

    def render(self, task: Task) -> Text:
        return Text(" ".join(self._pace.texts()))
