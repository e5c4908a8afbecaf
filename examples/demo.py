"""Predict accuracy from weights on a small zoo: build it on digits, train, compare, predict, report.

python examples/demo.py                     writes demo/, with demo/experiment/report.html
python examples/demo.py --networks 60 --steps 20 --out elsewhere
"""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Annotated

import numpy as np
import torch
import typer
from rich.console import Console
from safetensors.torch import save_file

import graph_metanetworks as gmn
from graph_metanetworks.experiments import Cell, Grid, Results, run_grid, write_report
from graph_metanetworks.experiments.report.figures import COLOURS, label, new_figure
from graph_metanetworks.table import Table
from graph_metanetworks.tasks.accuracy import Accuracy, LabelledZoo, Machine, Options, TracedZoo
from graph_metanetworks.zoo.recipes.classifiers import VaryingCnns

METHODS = ("gmn-probes", "gmn", "statnn", "statnn-boosting", "dmc", "deepsets")
SETTING = "50"
console = Console(highlight=False)


def demo(
    networks: Annotated[int, typer.Option(min=40, help="Number of networks in the zoo.")] = 240,
    epochs: Annotated[int, typer.Option(min=1, help="Training epochs of each network.")] = 5,
    steps: Annotated[
        int, typer.Option(min=10, help="Training steps of each method, a multiple of 10.")
    ] = 300,
    out: Annotated[Path, typer.Option(help="Output folder.")] = Path("demo"),
) -> None:
    """Build a zoo, train every method on half of it, and show the results."""
    start = perf_counter()
    torch.set_num_threads(1)  # the networks are so small that threads would mostly wait for each other
    step("1", f"build a zoo: {networks} CNNs on images of handwritten digits")
    zoo = gmn.zoo.build(VaryingCnns("digits", epochs=epochs), networks, out / "zoo", reference="varying-cnns")
    data = LabelledZoo(TracedZoo(zoo))
    step("2", f"train {len(METHODS)} methods to predict test accuracy from weights alone")
    # few rounds: with only 40 validation networks, an early checkpoint could be the best by chance
    options = Options(steps=steps, rounds=10, patience=0)
    grid = Grid(Accuracy(options), methods=METHODS, settings=(SETTING,), seeds=1)
    folder = out / "experiment"
    results = Results(grid, folder, run_grid(data, grid, folder, Machine(quiet=False)))
    results.write()
    step("3", "write the report")
    report = write_report(results, data, command="python examples/demo.py")
    step("4", "results")
    console.print(results.table().text(), markup=False)
    picture = draw_scatter(results, out / "scatter.png")
    console.print(examples(results, data, out).text(), markup=False)
    console.print(f"predicted against true accuracy: {picture.resolve()}", style="green", soft_wrap=True)
    console.print(f"the report: {report.resolve()}", style="green", soft_wrap=True)
    console.print(f"{perf_counter() - start:.0f} s in total", style="dim")


def step(number: str, text: str) -> None:
    console.print(f"\n[bold]{number}[/]  {text}")


def draw_scatter(results: Results, path: Path) -> Path:
    """Plot predicted against true accuracy of the test networks, for each method."""
    figure, axes = new_figure(1, len(METHODS), width=2.4 * len(METHODS), height=2.7)
    for ax, method, colour in zip(axes[0], METHODS, COLOURS, strict=False):
        test = results.predictions(Cell(method, SETTING, 0))["test"]
        ax.plot([0, 1], [0, 1], color="#cbd5e1", linewidth=1)
        ax.scatter(test.true, test.predicted, s=8, color=colour, alpha=0.7, linewidths=0)
        ax.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03))
        spread = results.spread(method, SETTING, "r2")
        label(ax, f"{method}  R² {spread}", "true accuracy", "predicted")
    figure.savefig(path, dpi=150)
    return path


def examples(results: Results, data: LabelledZoo, out: Path) -> Table:
    """Predict the accuracy of three test networks: a poor, a mediocre and a good one."""
    predictor = gmn.load(Cell("gmn", SETTING, 0).folder(results.out))
    test = results.predictions(Cell("gmn", SETTING, 0))["test"]
    order = np.argsort(test.true)
    rows = []
    for quantile in (0.1, 0.5, 0.9):
        index = int(test.indices[order[int(quantile * (len(order) - 1))]])
        file = out / f"network-{index}.safetensors"
        save_file(data.networks.zoo[index].state_dict, file)
        (found,) = predictor(data.networks.batch([index]))
        interval = f"{found.low:.3f} to {found.high:.3f}"
        rows.append((file.name, f"{data.labels[index]:.3f}", f"{found.accuracy:.3f}", interval))
    header = ("network", "true accuracy", "predicted", "90 % interval")
    return Table("\nThree test networks", header, rows, right=header[1:])


if __name__ == "__main__":
    typer.run(demo)
