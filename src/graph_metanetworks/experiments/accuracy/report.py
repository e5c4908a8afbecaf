"""The report: the paper's table with figures, and what a user would ask before trusting a predictor."""

from __future__ import annotations

from math import inf, isnan
from pathlib import Path

import numpy as np

from graph_metanetworks.experiments.accuracy import figures
from graph_metanetworks.experiments.accuracy.cells import Cell
from graph_metanetworks.experiments.accuracy.results import DASH, Results
from graph_metanetworks.experiments.accuracy.trust import Trust, capitalized, examine
from graph_metanetworks.experiments.page import Section, html_table, page, paragraph
from graph_metanetworks.table import Table
from graph_metanetworks.tasks.accuracy import LabelledZoo
from graph_metanetworks.tasks.accuracy.methods import find_method
from graph_metanetworks.tasks.accuracy.run_folder import Run
from graph_metanetworks.tasks.accuracy.splits import FAMILY, HIDDEN, Setting, family_of

NAME = "report.html"


def write_report(results: Results, data: LabelledZoo, *, command: str = "") -> Path:
    """Write `report.html` beside the runs; it needs no other file."""
    zoo = data.networks.zoo
    lead = (
        f"{len(data):,} networks of {zoo.description.recipe}, {len(data.networks.graphs)} architectures, "
        f"{data.networks.num_parameters.min():,} to {data.networks.num_parameters.max():,} weights each."
    )
    trust = examine(results, data)
    sections = [
        Section("Scores", _scores(results, command)),
        Section("The zoo", _zoo(data)),
        Section("Predictions", _predictions(results, data)),
        Section("Learning", figures.learning_curves(results) + html_table(results.details())),
        *([Section("Can it be trusted?", _trust(trust))] if trust else []),
    ]
    path = results.out / NAME
    path.write_text(page("Predicting accuracy from weights", lead, sections))
    return path


def _scores(results: Results, command: str) -> str:
    table = results.table()
    settings = ", ".join(f"{name}: {Setting.parse(name).title}" for name in results.plan.settings)
    about = [f"{find_method(name).title}: {find_method(name).about}." for name in results.plan.methods]
    refused = [f"{where}: no result. {capitalized(why)}" for where, why in results.refusals().items()]
    return (
        html_table(table, bold=best_cells(table))
        + paragraph(f"{table.title}. Settings: {settings}. The best of each column is bold.", "note")
        + "".join(paragraph(line, "note") for line in (*about, *refused))
        + (paragraph(f"Made by: {command}", "note") if command else "")
    )


def best_cells(table: Table) -> list[tuple[int, int]]:
    """The largest value of each column of scores.

    >>> rows = [("a", "9", "0.5 ± 0.1"), ("b", "7", "0.7"), ("c", "7", "nan"), ("d", "–", "diverged")]
    >>> best_cells(Table("", ("method", "parameters", "50 % R²"), rows))
    [(1, 2)]
    """
    chosen = []
    for column in range(2, len(table.header)):
        values = {number: _score(row[column]) for number, row in enumerate(table.rows)}
        if any(value > -inf for value in values.values()):
            chosen.append((max(values, key=lambda number: values[number]), column))
    return chosen


def _score(cell: str) -> float:
    """The mean that a cell shows; what is no number is worse than any."""
    try:
        value = float(cell.split()[0])
    except ValueError:
        return -inf
    return -inf if isnan(value) else value


def _zoo(data: LabelledZoo) -> str:
    families = family_of(data.networks.zoo.table)
    excluded = int((~data.usable).sum())
    text = f"{excluded:,} networks are left out: their weights are NaN or infinite." if excluded else ""
    return figures.histograms(data.labels, families) + (paragraph(text, "note") if text else "")


def _predictions(results: Results, data: LabelledZoo) -> str:
    table = data.networks.zoo.table
    families = dict(zip(table["index"].to_pylist(), family_of(table).tolist(), strict=True))
    groups = dict(zip(table["index"].to_pylist(), groups_of(data).tolist(), strict=True))
    body = ""
    for setting in results.plan.settings:
        parts = ("validation", "test") if setting == "ood" else ("test",)
        found = {
            find_method(method).title: results.predictions(Cell(method, setting, 0))
            for method in results.plan.methods
            if isinstance(results.runs[Cell(method, setting, 0)], Run)
        }
        if not found:
            continue
        panels = {method: {part: own[part] for part in parts} for method, own in found.items()}
        errors = {m: np.abs(own["test"].predicted - own["test"].true) for m, own in found.items()}
        where = {m: np.array([groups[i] for i in own["test"].indices.tolist()]) for m, own in found.items()}
        title = Setting.parse(setting).title
        body += f"<h3>{capitalized(title)}</h3>" + figures.scatter(panels, families, title)
        body += figures.errors_by_group(errors, where)
    return body + paragraph(
        "Runs of the first seed. Boxes show quartiles of the error on test networks.", "note"
    )


def groups_of(data: LabelledZoo) -> np.ndarray:  # [N]
    """Family and hidden size of each network, as text."""
    table = data.networks.zoo.table
    if HIDDEN not in table.column_names:
        return family_of(table)
    pairs = zip(family_of(table).tolist(), table[HIDDEN].to_pylist(), strict=True)
    named = FAMILY in table.column_names
    return np.array([f"{family} {hidden}" if named else str(hidden) for family, hidden in pairs])


def _trust(trust: Trust) -> str:
    name = f"{trust.title}, {trust.setting.title}, first seed"
    within = [
        (group, f"{own.networks:,}", f"{own.r2:.3f}", f"{own.tau:.3f}") for group, own in trust.within.items()
    ]
    rivals = [
        (rival, f"{own.r2:.3f}", f"{own.tau:.3f}", f"{inside:.3f}")
        for rival, (own, inside) in trust.rivals.items()
    ]
    probes = [
        (
            p.name,
            p.about,
            str(p.networks),
            f"{p.predicted:.3f}",
            DASH if p.true is None else f"{p.true:.3f}",
            f"{p.warned:.0%}",
        )
        for p in trust.probes
    ]
    gaps = [(method, f"{gap:.1e}" if gap else "none") for method, gap in trust.permuted.items()]
    return (
        paragraph(f"The answers are for {name}.", "note")
        + "<h3>Does it rank networks of one family and size?</h3>"
        + paragraph(trust.within_answer, "answer")
        + html_table(Table("", ("family and hidden size", "networks", "R²", "tau"), within))
        + "<h3>Does it beat what is known without the weights?</h3>"
        + paragraph(trust.rival_answer, "answer")
        + html_table(Table("", ("predicted from", "R²", "tau", "tau within family and size"), rivals))
        + "<h3>Do intervals hold what they promise?</h3>"
        + paragraph(trust.calibration_answer, "answer")
        + figures.calibration(trust.levels, trust.coverage)
        + "<h3>What does it say of other networks?</h3>"
        + paragraph(trust.probe_answer, "answer")
        + html_table(
            Table("", ("networks", "", "number", "predicted", "true", "called out of distribution"), probes)
        )
        + "<h3>Does the order of neurons matter?</h3>"
        + paragraph(trust.permutation_answer, "answer")
        + html_table(Table("", ("method", "largest change of a prediction when neurons are permuted"), gaps))
    )
