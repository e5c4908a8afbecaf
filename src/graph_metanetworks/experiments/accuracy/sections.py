"""Sections of the accuracy report: the zoo, predictions, and whether a predictor can be trusted."""

from __future__ import annotations

from typing import cast

import numpy as np

from graph_metanetworks.experiments.accuracy import figures
from graph_metanetworks.experiments.accuracy.by_group import accuracy_by_group
from graph_metanetworks.experiments.accuracy.trust import Trust, examine
from graph_metanetworks.experiments.report.groups import groups_by_column
from graph_metanetworks.experiments.report.page import Section, html_table, paragraph
from graph_metanetworks.experiments.results import DASH, Results
from graph_metanetworks.table import Table, capitalized
from graph_metanetworks.tasks.accuracy.data import LabelledZoo
from graph_metanetworks.tasks.data import TaskData
from graph_metanetworks.tasks.splits import BY_SIZE, FAMILY, HIDDEN, family_of


def accuracy_sections(results: Results, data: TaskData) -> list[Section]:
    labelled = cast(LabelledZoo, data)
    trust = examine(results, labelled)
    return [
        Section("The zoo", _zoo(labelled)),
        Section("Predictions", _predictions(results, labelled)),
        *([Section("Can it be trusted?", _trust(trust))] if trust else []),
    ]


def _zoo(data: LabelledZoo) -> str:
    families = family_of(data.networks.zoo.table)
    excluded = data.num_unusable
    text = f"{excluded:,} networks are left out: their weights are NaN or infinite." if excluded else ""
    return figures.histograms(data.labels, families) + (paragraph(text, "note") if text else "")


def _predictions(results: Results, data: LabelledZoo) -> str:
    table = data.networks.zoo.table
    families = dict(zip(table["index"].to_pylist(), family_of(table).tolist(), strict=True))
    groups = dict(zip(table["index"].to_pylist(), groups_of(data).tolist(), strict=True))
    body = ""
    for setting in results.grid.settings:
        named = results.task.setting(setting)
        parts = ("test",) if named.percent is not None else ("validation", "test")
        found = {title: results.predictions(cell) for title, cell in results.first_runs(setting).items()}
        if not found:
            continue
        panels = {method: {part: own[part] for part in parts} for method, own in found.items()}
        errors = {m: np.abs(own["test"].predicted - own["test"].true) for m, own in found.items()}
        where = {m: np.array([groups[i] for i in own["test"].indices.tolist()]) for m, own in found.items()}
        title = named.title
        body += f"<h3>{capitalized(title)}</h3>" + figures.scatter(panels, families, title)
        body += figures.errors_by_group(errors, where)
        if setting in BY_SIZE:
            body += html_table(accuracy_by_group(results, setting, groups, "size"))
        if named.left_out is not None:
            values = groups_by_column(table, named.left_out.column)
            body += html_table(accuracy_by_group(results, setting, values, named.left_out.column))
    return body + paragraph(
        "Figures are for the first seed, with quartiles of the error on test networks. Tables by group are "
        "for all seeds; recalibrated R² is that after the best linear map from predictions to accuracies.",
        "note",
    )


def groups_of(data: LabelledZoo) -> np.ndarray:  # [N]
    """Return the family and hidden size of each network as text."""
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
    shifts = [
        (
            method,
            p.name,
            p.about,
            str(p.networks),
            f"{p.predicted:.3f}",
            *(DASH if value is None else f"{value:.3f}" for value in (p.true, p.error)),
            f"{p.warned:.1%}",
            DASH if p.learned is None else f"{p.learned[1]:.0%} of {p.learned[0]}",
        )
        for method, found in trust.shifts.items()
        for p in found
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
        + "<h3>Do intervals keep their promise?</h3>"
        + paragraph(trust.calibration_answer, "answer")
        + paragraph(trust.group_answer, "answer")
        + figures.calibration(trust.levels, trust.coverage)
        + "<h3>What does it say of other networks?</h3>"
        + paragraph(trust.shift_answer, "answer")
        + html_table(
            Table(
                "",
                (
                    "method",
                    "networks",
                    "",
                    "number",
                    "predicted",
                    "true",
                    "mean error",
                    "called out of distribution",
                    "of those that learned something",
                ),
                shifts,
            )
        )
        + "<h3>Does the order of neurons matter?</h3>"
        + paragraph(trust.permutation_answer, "answer")
        + html_table(Table("", ("method", "largest change of a prediction when neurons are permuted"), gaps))
    )
