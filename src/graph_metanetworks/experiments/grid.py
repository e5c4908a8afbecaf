"""The grid of an experiment: one run for each method, setting and seed, in a folder of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from graph_metanetworks.errors import Diverged, TaskError, UnsupportedNetwork
from graph_metanetworks.methods.registry import find_method
from graph_metanetworks.tasks.data import TaskData
from graph_metanetworks.tasks.runs import make_model, train_or_load, tune
from graph_metanetworks.tasks.task import Task
from graph_metanetworks.training.options import Machine
from graph_metanetworks.training.run_folder import RUN, Run


@dataclass(frozen=True)
class Cell:
    """One run of an experiment."""

    method: str
    setting: str
    seed: int

    def folder(self, out: Path) -> Path:
        return out / "runs" / self.setting / find_method(self.method).name / f"seed-{self.seed}"


@dataclass(frozen=True)
class Grid:
    """The methods, settings and seeds to compare.

    Args:
        task: its options are those of every run; method, setting, seed and learning rate are filled in.
        methods, settings: by default those of the task.
        seeds: runs of each method in each setting; each seed has its own split and initial weights.
        tuned: choose the learning rate on the validation networks of the first seed, as the paper does.
    """

    task: Task[Any]
    methods: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    seeds: int = 5
    tuned: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "methods", self.methods or self.task.methods)
        object.__setattr__(self, "settings", self.settings or self.task.settings)
        for name in self.methods:
            find_method(name)
        for name in self.settings:
            self.task.setting(name)
        if self.seeds < 1:
            raise TaskError("an experiment needs at least one method, one setting and one seed.")

    def cells(self) -> Iterator[Cell]:
        for setting in self.settings:
            for method in self.methods:
                yield from (Cell(method, setting, seed) for seed in range(self.seeds))

    def task_of(self, cell: Cell, learning_rate: float | None) -> Task[Any]:
        """Return the task with the options of one run."""
        return self.task.with_options(
            method=cell.method, setting=cell.setting, seed=cell.seed, learning_rate=learning_rate
        )


def allowed_settings(grid: Grid, data: TaskData) -> tuple[tuple[str, ...], list[str]]:
    """Return the settings that the zoo allows, and why it does not allow the others."""
    allowed, refused = [], []
    for setting in grid.settings:
        try:
            grid.task.split(data, setting, 0)
            allowed.append(setting)
        except TaskError as error:
            refused.append(str(error))
    if not allowed:
        raise TaskError(refused[0])
    return tuple(allowed), refused


@dataclass(frozen=True)
class Refused:
    """A run without a result: its method cannot take the networks of a setting, or training diverged."""

    reason: str
    diverged: bool = False


def run_grid(
    data: TaskData, grid: Grid, out: Path, machine: Machine | None = None
) -> dict[Cell, Run | Refused]:
    """Train all missing runs. Finished ones are kept, so the same call resumes."""
    machine = machine or Machine()
    console = Console(stderr=True, quiet=machine.quiet, highlight=False)
    for setting in grid.settings:  # refuse a setting that the zoo does not allow before any training
        grid.task.split(data, setting, 0)
    for method in grid.methods:  # and a method that cannot do the task; one for other networks is recorded
        with suppress(UnsupportedNetwork):
            make_model(grid.task_of(Cell(method, grid.settings[0], 0), None), data)
    found: dict[Cell, Run | Refused] = {}
    rates: dict[tuple[str, str], float | None] = {}
    cells = list(grid.cells())
    for number, cell in enumerate(cells, 1):
        name = find_method(cell.method).name
        console.print(f"{number}/{len(cells)}  {cell.setting}  {name}  seed {cell.seed}", style="dim")
        try:
            found[cell] = _run(data, grid, cell, rates, out, machine)
        except UnsupportedNetwork as error:
            found[cell] = Refused(str(error))
        except Diverged as error:
            found[cell] = Refused(str(error), diverged=True)
    return found


def _run(
    data: TaskData,
    grid: Grid,
    cell: Cell,
    rates: dict[tuple[str, str], float | None],
    out: Path,
    machine: Machine,
) -> Run:
    key, folder = (cell.method, cell.setting), cell.folder(out)
    if grid.tuned and key not in rates and find_method(cell.method).by_gradient:
        task = grid.task_of(cell, None)
        run = Run.load(folder) if (folder / RUN).exists() else tune(task, data, folder, machine)
        rates[key] = run.options["learning_rate"]
    rate = rates.get(key, grid.task.options.learning_rate)
    return train_or_load(grid.task_of(cell, rate), data, folder, machine)
