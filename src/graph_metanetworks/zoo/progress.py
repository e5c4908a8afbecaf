"""How far a build is: networks done, networks per second, time left."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

WINDOW = 600.0  # seconds over which the speed is measured: shards of different families differ


class Display:
    """A progress bar over all networks of a zoo; `quiet` shows none."""

    def __init__(self, total: int, finished: int, *, quiet: bool = False) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            _Rate(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            speed_estimate_period=WINDOW,
            disable=quiet,
        )
        self._finished = finished
        self._partly: dict[int, float] = {}  # networks done in shards that are not finished
        self._task = self._progress.add_task("networks", total=total, completed=finished)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

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


class _Rate(ProgressColumn):
    """Networks per second, or per minute where they take long."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        if not speed:
            return Text("")
        return Text(f"{speed:.1f}/s" if speed >= 1 else f"{speed * 60:.1f}/min")
