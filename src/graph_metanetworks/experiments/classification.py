"""Sections of the classification report: confusion, accuracy of each class, and misread examples."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from typing import cast

import numpy as np

from graph_metanetworks.experiments.grid import Cell
from graph_metanetworks.experiments.report.figures import as_image, label, new_figure
from graph_metanetworks.experiments.report.groups import group_sections
from graph_metanetworks.experiments.report.page import Section, html_table, paragraph
from graph_metanetworks.experiments.results import DASH, Results
from graph_metanetworks.table import Table
from graph_metanetworks.tasks.classification import ClassifiedZoo
from graph_metanetworks.tasks.data import TaskData
from graph_metanetworks.training.run_folder import PREDICTIONS
from graph_metanetworks.zoo.inr.sheet import draw
from graph_metanetworks.zoo.recipes.inrs import InrRecipe

SHOWN = 16  # misread networks
COLUMNS = 8


@dataclass(frozen=True)
class Read:
    """What a run made of one test network."""

    index: int
    true: int
    predicted: int
    probability: float


def classification_sections(results: Results, data: TaskData) -> list[Section]:
    classes = cast(ClassifiedZoo, data).classes
    setting = results.grid.settings[0]
    found = {name: read_tests(results, cell) for name, cell in results.first_runs(setting).items()}
    if not found:
        return []
    matrices = {name: confusion(reads, len(classes)) for name, reads in found.items()}
    note = paragraph(f"Test networks, first seed, {results.task.setting(setting).title}.", "note")
    name, reads = max(found.items(), key=lambda item: np.trace(matrices[item[0]]))
    return [
        Section("Confusion", _confusion(matrices, classes) + note),
        Section("Classes", html_table(by_class(matrices, classes)) + note),
        Section("Misread", _misread(name, reads, classes, data)),
        *group_sections(results, data.networks.zoo.table, {"accuracy": _accuracy}),
    ]


def _accuracy(predicted: np.ndarray, true: np.ndarray) -> float:
    return float(np.mean(predicted == true))


def read_tests(results: Results, cell: Cell) -> list[Read]:
    with (cell.folder(results.out) / PREDICTIONS).open() as file:
        rows = [row for row in csv.DictReader(file) if row["part"] == "test"]
    return [
        Read(int(row["index"]), int(row["true"]), int(row["predicted"]), float(row["probability"]))
        for row in rows
    ]


def confusion(reads: list[Read], classes: int) -> np.ndarray:
    """Count networks by true class (rows) and predicted class (columns).

    >>> confusion([Read(0, 0, 1, 0.9), Read(1, 1, 1, 0.8), Read(2, 0, 0, 0.7)], 2).tolist()
    [[1, 1], [0, 1]]
    """
    counts = np.zeros((classes, classes), dtype=np.int64)
    np.add.at(counts, ([read.true for read in reads], [read.predicted for read in reads]), 1)
    return counts


def by_class(matrices: dict[str, np.ndarray], classes: tuple[str, ...]) -> Table:
    """Tabulate the accuracy of each method on each class, and what it takes most of the others for."""
    first, rows = next(iter(matrices.values())), []
    for number, name in enumerate(classes):
        cells = []
        for counts in matrices.values():
            total, wrong = int(counts[number].sum()), np.delete(counts[number], number)
            others = [other for place, other in enumerate(classes) if place != number]
            mistake = f"{others[int(wrong.argmax())]} ({wrong.max():,})" if wrong.any() else DASH
            cells += [f"{counts[number, number] / total:.1%}" if total else DASH, mistake]
        rows.append((name, f"{int(first[number].sum()):,}", *cells))
    header = ("class", "networks", *(text for name in matrices for text in (name, "mostly taken for")))
    return Table("", header, rows, right=header[1:])


def _confusion(matrices: dict[str, np.ndarray], classes: tuple[str, ...]) -> str:
    columns = min(3, len(matrices))
    rows = -(-len(matrices) // columns)
    figure, axes = new_figure(rows, columns, width=3.4 * columns, height=3.4 * rows)
    flat = [ax for row in axes for ax in row]
    for ax in flat[len(matrices) :]:
        ax.set_axis_off()
    places = range(len(classes))
    for ax, (name, counts) in zip(flat, matrices.items(), strict=False):
        shares = counts / counts.sum(1, keepdims=True).clip(min=1)
        ax.imshow(shares, cmap="Blues", vmin=0, vmax=1)
        ax.set_xticks(places, classes, rotation=90 if max(map(len, classes)) > 2 else 0)
        ax.set_yticks(places, classes)
        for row, column in np.argwhere(counts) if len(classes) <= 12 else ():
            colour = "white" if shares[row, column] > 0.5 else "black"
            ax.text(column, row, str(counts[row, column]), ha="center", va="center", size=6, color=colour)
        label(ax, name, "predicted", "true")
    return as_image(figure, "confusion matrices")


def _misread(name: str, reads: list[Read], classes: tuple[str, ...], data: TaskData) -> str:
    """Show the networks that the best method misread most confidently."""
    wrong = sorted((read for read in reads if read.true != read.predicted), key=lambda r: -r.probability)
    lead = paragraph(f"{name} misreads {len(wrong):,} of {len(reads):,}. The most confident mistakes:")
    if not wrong:
        return paragraph(f"{name} misreads no test network.")
    shown, recipe = wrong[:SHOWN], data.networks.zoo.recipe
    if isinstance(recipe, InrRecipe):
        return lead + _pictures(shown, classes, data, recipe)
    rows = [
        (str(read.index), classes[read.true], classes[read.predicted], f"{read.probability:.3f}")
        for read in shown
    ]
    return lead + html_table(Table("", ("network", "true", "predicted", "probability"), rows))


def _pictures(shown: list[Read], classes: tuple[str, ...], data: TaskData, recipe: InrRecipe) -> str:
    zoo, columns = data.networks.zoo, min(COLUMNS, len(shown))
    places = {index: place for place, index in enumerate(zoo.table["index"].to_pylist())}
    rows = -(-len(shown) // columns)
    figure, axes = new_figure(rows, columns, width=1.2 * columns, height=1.4 * rows)
    flat = [ax for row in axes for ax in row]
    for ax in flat:
        ax.set_axis_off()
    for ax, read in zip(flat, shown, strict=False):
        network = zoo[places[read.index]]
        draw(ax, recipe.render(network.state_dict, network.config), recipe.conventions)
        label(ax, f"{classes[read.true]} as {classes[read.predicted]}")
    return as_image(figure, "misread networks")
