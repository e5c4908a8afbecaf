"""The report of an experiment: common sections, and those of the task."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, isnan
from pathlib import Path

from graph_metanetworks.experiments.accuracy.sections import accuracy_sections
from graph_metanetworks.experiments.classification import classification_sections
from graph_metanetworks.experiments.report.curves import learning_curves
from graph_metanetworks.experiments.report.page import Section, html_table, page, paragraph
from graph_metanetworks.experiments.results import Results
from graph_metanetworks.methods.registry import find_method
from graph_metanetworks.table import Table, capitalized
from graph_metanetworks.tasks.data import TaskData
from graph_metanetworks.tasks.task import Score

NAME = "report.html"
SECTIONS: dict[str, Callable[[Results, TaskData], Sequence[Section]]] = {
    "accuracy": accuracy_sections,
    "classification": classification_sections,
}


def write_report(results: Results, data: TaskData, *, command: str = "") -> Path:
    """Write `report.html` next to the runs."""
    zoo, networks = data.networks.zoo, data.networks
    lead = (
        f"{len(data):,} networks of {zoo.description.recipe}, {len(networks.graphs)} architectures, "
        f"{networks.num_parameters.min():,} to {networks.num_parameters.max():,} weights each."
    )
    sections = [
        Section("Scores", scores_section(results, command)),
        *_of_task(results, data),
        Section("Learning", learning_curves(results) + html_table(results.details())),
    ]
    path = results.out / NAME
    path.write_text(page(results.task.title, lead, sections))
    return path


def _of_task(results: Results, data: TaskData) -> list[Section]:
    """Sections of a built-in task, and those that a user's task brings along."""
    own = SECTIONS.get(results.task.name, lambda *_: ())(results, data)
    return [*own, *(Section(*part) for part in results.task.report_sections(results, data))]


def scores_section(results: Results, command: str) -> str:
    table, task = results.table(), results.task
    settings = ", ".join(f"{name}: {task.setting(name).title}" for name in results.grid.settings)
    methods = [find_method(name) for name in results.grid.methods]
    about = [f"{method.title}: {method.about}." for method in methods]
    refused = [f"{where}: no result. {capitalized(why)}" for where, why in results.refusals().items()]
    return (
        html_table(table, bold=best_cells(table, results.headlines))
        + paragraph(f"{table.title}. Settings: {settings}. The best of each column is bold.", "note")
        + "".join(paragraph(line, "note") for line in (*about, *refused))
        + (paragraph(f"Made by: {command}", "note") if command else "")
    )


def best_cells(table: Table, scores: Sequence[Score]) -> list[tuple[int, int]]:
    """Find the best value of each column of scores.

    >>> rows = [("a", "9", "0.5 ± 0.1"), ("b", "7", "0.7"), ("c", "7", "nan"), ("d", "–", "diverged")]
    >>> best_cells(Table("", ("method", "parameters", "50 % R²"), rows), [Score("r2", "R²")])
    [(1, 2)]
    """
    chosen = []
    for column in range(2, len(table.header)):
        score = scores[(column - 2) % len(scores)]
        values = {number: _value(row[column], score) for number, row in enumerate(table.rows)}
        if any(value > -inf for value in values.values()):
            chosen.append((max(values, key=lambda number: values[number]), column))
    return chosen


def _value(cell: str, score: Score) -> float:
    """Read the mean that a cell shows, larger for better; what is no number counts as worst."""
    try:
        value = score.better(float(cell.split()[0]))
    except ValueError:
        return -inf
    return -inf if isnan(value) else value
