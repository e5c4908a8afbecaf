"""The results of an experiment: scores of every run, and the table of means and deviations."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np

from graph_metanetworks.experiments.grid import Cell, Grid, Refused
from graph_metanetworks.methods.registry import find_method
from graph_metanetworks.table import Table
from graph_metanetworks.tasks.task import Score, Task
from graph_metanetworks.training.run_folder import CURVE, PREDICTIONS, Run

DASH = "–"


@dataclass(frozen=True)
class Spread:
    """A mean and a standard deviation, which is None for a single run. NaN if a value is NaN."""

    mean: float
    deviation: float | None

    @classmethod
    def of(cls, values: list[float]) -> Spread:
        return cls(float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else None)

    def text(self, digits: int) -> str:
        """Show the numbers with so many digits after the point."""
        if self.deviation is None or isnan(self.mean):
            return f"{self.mean:.{digits}f}"
        return f"{self.mean:.{digits}f} ± {self.deviation:.{digits}f}"

    def __str__(self) -> str:
        return self.text(3)


@dataclass(frozen=True, eq=False)
class Predicted:
    """Targets and predictions of the networks of one part."""

    indices: np.ndarray
    true: np.ndarray
    predicted: np.ndarray


@dataclass(frozen=True, eq=False)
class Results:
    """All runs of a grid."""

    grid: Grid
    out: Path
    runs: dict[Cell, Run | Refused]

    @property
    def task(self) -> Task[Any]:
        return self.grid.task

    @property
    def headlines(self) -> tuple[Score, ...]:
        """The scores of the main table."""
        return tuple(score for score in self.task.scores if score.headline)

    def of(self, method: str, setting: str) -> list[Run]:
        return [run for run in self._found(method, setting) if isinstance(run, Run)]

    def refused(self, method: str, setting: str) -> list[Refused]:
        return [run for run in self._found(method, setting) if isinstance(run, Refused)]

    def _found(self, method: str, setting: str) -> list[Run | Refused]:
        return [self.runs[Cell(method, setting, seed)] for seed in range(self.grid.seeds)]

    def first_runs(self, setting: str) -> dict[str, Cell]:
        """Runs of the first seed in a setting, by the title of their method."""
        cells = {find_method(method).title: Cell(method, setting, 0) for method in self.grid.methods}
        return {title: cell for title, cell in cells.items() if isinstance(self.runs[cell], Run)}

    def refusals(self) -> dict[str, str]:
        """Why runs have no result, by method, setting and, if others have one, number of seeds."""
        found = {}
        for setting in self.grid.settings:
            for method in self.grid.methods:
                refused = self.refused(method, setting)
                if refused:
                    where = f"{find_method(method).title}, {self.task.setting(setting).title}"
                    some = len(refused) < self.grid.seeds
                    seeds = f", {len(refused)} of {self.grid.seeds} seeds" if some else ""
                    found[where + seeds] = refused[0].reason
        return found

    def spread(self, method: str, setting: str, score: str, part: str = "test") -> Spread | None:
        values = [run.scores[part][score] for run in self.of(method, setting) if run.result]
        return Spread.of(values) if values else None

    def table(self) -> Table:
        """The main table: methods against settings, scores on test networks."""
        header = ["method", "parameters"]
        header += [
            f"{self.task.setting(name).short} {score.title}"
            for name in self.grid.settings
            for score in self.headlines
        ]
        rows = [self._row(method) for method in self.grid.methods]
        several = f"mean ± deviation over {self.grid.seeds} seeds"
        title = f"Test scores, {several if self.grid.seeds > 1 else 'one seed'}"
        return Table(title, tuple(header), rows, right=tuple(header[1:]))

    def _row(self, method: str) -> tuple[str, ...]:
        runs = [run for setting in self.grid.settings for run in self.of(method, setting)]
        counts = sorted({run.result["parameters"] for run in runs if run.result})
        parameters = f"{counts[-1]:,}" if counts and counts[-1] else DASH
        cells = [
            self._cell(method, setting, score) for setting in self.grid.settings for score in self.headlines
        ]
        return (find_method(method).title, parameters, *cells)

    def _cell(self, method: str, setting: str, score: Score) -> str:
        """Scores of the runs that have some, and how many others diverged."""
        found = self.spread(method, setting, score.name)
        diverged = sum(run.diverged for run in self.refused(method, setting))
        if found is None:
            return "diverged" if diverged else DASH
        shown = found.text(score.digits)
        return f"{shown} ({diverged} diverged)" if diverged else shown

    def details(self) -> Table:
        """Sizes of the parts, learning rates, seconds of training, and the other scores."""
        others = [score for score in self.task.scores if not score.headline]
        header = ("method", "setting", "train", "validation", "test", "learning rate", "seconds")
        header += tuple(score.title for score in others)
        rows = []
        for setting in self.grid.settings:
            for method in self.grid.methods:
                runs = [run for run in self.of(method, setting) if run.result]
                if runs and runs[0].result:
                    sizes = [f"{size:,}" for size in runs[0].result["sizes"].values()]
                    seconds = Spread.of([run.result["seconds"] for run in runs if run.result])
                    by_gradient = find_method(method).by_gradient
                    rate = f"{runs[0].options['learning_rate']:g}" if by_gradient else DASH
                    row = (find_method(method).title, setting, *sizes, rate, f"{seconds.mean:.0f}")
                    rows.append(row + tuple(str(self.spread(method, setting, s.name)) for s in others))
        return Table("Runs", header, rows, right=header[2:])

    def predictions(self, cell: Cell) -> dict[str, Predicted]:
        """Return targets and predictions of a run by part, from the columns "true" and "predicted"."""
        with (cell.folder(self.out) / PREDICTIONS).open() as file:
            rows = list(csv.DictReader(file))
        parts = {}
        for part in ("train", "validation", "test"):
            own = [row for row in rows if row["part"] == part]
            parts[part] = Predicted(
                np.array([int(row["index"]) for row in own]),
                np.array([float(row["true"]) for row in own]),
                np.array([float(row["predicted"]) for row in own]),
            )
        return parts

    def curve(self, cell: Cell) -> dict[str, np.ndarray] | None:
        """Return the learning curve of a run by column, or None if the method has none."""
        path = cell.folder(self.out) / CURVE
        if not path.is_file():
            return None
        with path.open() as file:
            rows = list(csv.DictReader(file))
        return {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}

    def write(self) -> None:
        """Write the table, and every run as a line, as CSV."""
        for name, table in (("table.csv", self.table()), ("runs.csv", self._all_runs())):
            with (self.out / name).open("w", newline="") as file:
                csv.writer(file).writerows([table.header, *table.rows])

    def _all_runs(self) -> Table:
        names = [score.name for score in self.task.scores]
        rows = [
            (
                *(cell.method, cell.setting, str(cell.seed)),
                *(str(run.result["parameters"]), str(run.result["seconds"])),
                *(f"{run.scores['test'][name]:.6f}" for name in names),
            )
            for cell, run in self.runs.items()
            if isinstance(run, Run) and run.result
        ]
        return Table("All runs", ("method", "setting", "seed", "parameters", "seconds", *names), rows)
