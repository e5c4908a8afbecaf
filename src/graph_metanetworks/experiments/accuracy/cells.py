"""The runs of the experiment: one for each method, setting and seed, in a folder of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from rich.console import Console

from graph_metanetworks.errors import Diverged, TaskError, UnsupportedNetwork
from graph_metanetworks.tasks.accuracy import LabelledZoo, Machine, Options, tune
from graph_metanetworks.tasks.accuracy.methods import find_method
from graph_metanetworks.tasks.accuracy.run_folder import RUN, Run
from graph_metanetworks.tasks.accuracy.splits import Setting
from graph_metanetworks.tasks.accuracy.training import train_or_load

METHODS = ("gmn", "dmc", "deepsets", "statnn", "statnn-boosting")
SETTINGS = ("50", "5", "ood")


@dataclass(frozen=True)
class Cell:
    """One run of the experiment."""

    method: str
    setting: str
    seed: int

    def folder(self, out: Path) -> Path:
        return out / "runs" / self.setting / self.method / f"seed-{self.seed}"


@dataclass(frozen=True)
class Plan:
    """What is compared.

    Args:
        seeds: runs of each method in each setting; each seed has its own split and initial weights.
        tuned: choose the learning rate on the validation part of the first seed, as the paper does.
        options: of every run; method, setting, seed and learning rate are filled in.
    """

    methods: tuple[str, ...] = METHODS
    settings: tuple[str, ...] = SETTINGS
    seeds: int = 5
    tuned: bool = False
    options: Options = field(default_factory=Options)

    def __post_init__(self) -> None:
        for name in self.methods:
            find_method(name)
        for name in self.settings:
            Setting.parse(name)
        if self.seeds < 1 or not self.methods or not self.settings:
            raise TaskError("an experiment needs at least one method, one setting and one seed.")

    def cells(self) -> Iterator[Cell]:
        for setting in self.settings:
            for method in self.methods:
                yield from (Cell(method, setting, seed) for seed in range(self.seeds))

    def options_of(self, cell: Cell, learning_rate: float | None) -> Options:
        return replace(
            self.options,
            method=cell.method,
            setting=cell.setting,
            seed=cell.seed,
            learning_rate=learning_rate,
        )


@dataclass(frozen=True)
class Refused:
    """A run without a result: its method cannot take the networks of a setting, or training diverged."""

    reason: str
    diverged: bool = False


def run_cells(
    data: LabelledZoo, plan: Plan, out: Path, machine: Machine | None = None
) -> dict[Cell, Run | Refused]:
    """Train all that is not trained yet. Finished runs are taken as they are, so the same call goes on."""
    machine = machine or Machine()
    console = Console(stderr=True, quiet=machine.quiet, highlight=False)
    for setting in plan.settings:  # a setting that the zoo does not allow is refused before any training
        Setting.parse(setting).split(data.networks.zoo.table, data.usable, 0)
    found: dict[Cell, Run | Refused] = {}
    rates: dict[tuple[str, str], float | None] = {}
    cells = list(plan.cells())
    for number, cell in enumerate(cells, 1):
        console.print(f"{number}/{len(cells)}  {cell.setting}  {cell.method}  seed {cell.seed}", style="dim")
        try:
            found[cell] = _run(data, plan, cell, rates, out, machine)
        except UnsupportedNetwork as error:
            found[cell] = Refused(str(error))
        except Diverged as error:
            found[cell] = Refused(str(error), diverged=True)
    return found


def _run(
    data: LabelledZoo,
    plan: Plan,
    cell: Cell,
    rates: dict[tuple[str, str], float | None],
    out: Path,
    machine: Machine,
) -> Run:
    key, folder = (cell.method, cell.setting), cell.folder(out)
    if plan.tuned and key not in rates and find_method(cell.method).by_gradient:
        options = plan.options_of(cell, None)
        run = Run.load(folder) if (folder / RUN).exists() else tune(data, folder, options, machine)
        rates[key] = run.options["learning_rate"]
    return train_or_load(
        data, folder, plan.options_of(cell, rates.get(key, plan.options.learning_rate)), machine
    )
