"""What came of the experiment: scores of every run, and the table of means and deviations."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from math import isnan
from pathlib import Path

import numpy as np

from graph_metanetworks.experiments.accuracy.cells import Cell, Plan, Refused
from graph_metanetworks.table import Table
from graph_metanetworks.tasks.accuracy.methods import find_method
from graph_metanetworks.tasks.accuracy.run_folder import CURVE, PREDICTIONS, Run
from graph_metanetworks.tasks.accuracy.splits import Setting

DASH = "–"


@dataclass(frozen=True)
class Spread:
    """A mean and a standard deviation; of one run the deviation is not known. NaN if a value is."""

    mean: float
    deviation: float | None

    @classmethod
    def of(cls, values: list[float]) -> Spread:
        return cls(float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else None)

    def __str__(self) -> str:
        if self.deviation is None or isnan(self.mean):
            return f"{self.mean:.3f}"
        return f"{self.mean:.3f} ± {self.deviation:.3f}"


@dataclass(frozen=True, eq=False)
class Predicted:
    """True and predicted accuracies of the networks of one part."""

    indices: np.ndarray
    true: np.ndarray
    predicted: np.ndarray


@dataclass(frozen=True, eq=False)
class Results:
    """All runs of a plan."""

    plan: Plan
    out: Path
    runs: dict[Cell, Run | Refused]

    def of(self, method: str, setting: str) -> list[Run]:
        found = [self.runs[Cell(method, setting, seed)] for seed in range(self.plan.seeds)]
        return [run for run in found if isinstance(run, Run)]

    def refused(self, method: str, setting: str) -> list[Refused]:
        found = [self.runs[Cell(method, setting, seed)] for seed in range(self.plan.seeds)]
        return [run for run in found if isinstance(run, Refused)]

    def refusals(self) -> dict[str, str]:
        """Why a method has no result, by method and setting."""
        found = {}
        for setting in self.plan.settings:
            for method in self.plan.methods:
                refused = self.refused(method, setting)
                if refused:
                    where = f"{find_method(method).title}, {Setting.parse(setting).title}"
                    some = len(refused) < self.plan.seeds
                    part = f", {len(refused)} of {self.plan.seeds} seeds" if some else ""
                    found[where + part] = refused[0].reason
        return found

    def spread(self, method: str, setting: str, score: str, part: str = "test") -> Spread | None:
        values = [run.result["scores"][part][score] for run in self.of(method, setting) if run.result]
        return Spread.of(values) if values else None

    def table(self) -> Table:
        """The paper's table: methods against settings, R² and tau on test networks."""
        header = ["method", "parameters"]
        header += [
            f"{Setting.parse(name).short} {score}" for name in self.plan.settings for score in ("R²", "tau")
        ]
        rows = [self._row(method) for method in self.plan.methods]
        several = f"mean ± deviation over {self.plan.seeds} seeds"
        title = f"Test scores, {several if self.plan.seeds > 1 else 'one seed'}"
        return Table(title, tuple(header), rows, right=tuple(header[1:]))

    def _row(self, method: str) -> tuple[str, ...]:
        runs = [run for setting in self.plan.settings for run in self.of(method, setting)]
        counts = sorted({run.result["parameters"] for run in runs if run.result})
        parameters = f"{counts[-1]:,}" if counts and counts[-1] else DASH
        cells = [
            self._cell(method, setting, score) for setting in self.plan.settings for score in ("r2", "tau")
        ]
        return (find_method(method).title, parameters, *cells)

    def _cell(self, method: str, setting: str, score: str) -> str:
        """Scores of the runs that have some; whether others diverged."""
        found = self.spread(method, setting, score)
        diverged = sum(run.diverged for run in self.refused(method, setting))
        if found is None:
            return "diverged" if diverged else DASH
        return f"{found} ({diverged} diverged)" if diverged else str(found)

    def details(self) -> Table:
        """Beside the scores: sizes of the parts, learning rates, seconds of training."""
        header = (
            "method",
            "setting",
            "train",
            "validation",
            "test",
            "learning rate",
            "seconds",
            "mean error",
        )
        rows = []
        for setting in self.plan.settings:
            for method in self.plan.methods:
                runs = [run for run in self.of(method, setting) if run.result]
                if runs and runs[0].result:
                    sizes = [f"{size:,}" for size in runs[0].result["sizes"].values()]
                    seconds = Spread.of([run.result["seconds"] for run in runs if run.result])
                    rate = f"{runs[0].options['learning_rate']:g}" if _has_rate(method) else DASH
                    error = str(self.spread(method, setting, "mae"))
                    row = (find_method(method).title, setting, *sizes, rate, f"{seconds.mean:.0f}", error)
                    rows.append(row)
        return Table("Runs", header, rows, right=header[2:])

    def predictions(self, cell: Cell) -> dict[str, Predicted]:
        """What a run predicted, by part."""
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
        """The learning curve of a run, by column; None for a method without one."""
        path = cell.folder(self.out) / CURVE
        if not path.is_file():
            return None
        with path.open() as file:
            rows = list(csv.DictReader(file))
        return {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}

    def write(self) -> None:
        """The table as CSV, and every run as a line."""
        for name, table in (("table.csv", self.table()), ("runs.csv", self._all_runs())):
            with (self.out / name).open("w", newline="") as file:
                csv.writer(file).writerows([table.header, *table.rows])

    def _all_runs(self) -> Table:
        header = ("method", "setting", "seed", "parameters", "seconds", "r2", "tau", "mae")
        rows = [
            (
                *(cell.method, cell.setting, str(cell.seed)),
                *(str(run.result["parameters"]), str(run.result["seconds"])),
                *(f"{run.result['scores']['test'][score]:.6f}" for score in ("r2", "tau", "mae")),
            )
            for cell, run in self.runs.items()
            if isinstance(run, Run) and run.result
        ]
        return Table("All runs", header, rows)


def _has_rate(method: str) -> bool:
    return find_method(method).by_gradient
