"""Scores of test networks group by group: by a column of the zoo, or by family and size."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa

from graph_metanetworks.experiments.grid import Cell
from graph_metanetworks.experiments.report.page import Section, html_table, paragraph
from graph_metanetworks.experiments.results import Results, Spread
from graph_metanetworks.methods.registry import find_method
from graph_metanetworks.table import Table, capitalized
from graph_metanetworks.tasks.splits import column_of
from graph_metanetworks.training.run_folder import Run

LEAST = 8  # networks of a group
KIND = "kind"
NOTE = (
    f"Test networks, mean and deviation over all seeds; groups of fewer than {LEAST} networks are left out."
)
Measure = Callable[[np.ndarray, np.ndarray], float]  # predicted, true -> score


def scores_by_group(
    results: Results, setting: str, groups: Mapping[int, str], measures: Mapping[str, Measure], title: str
) -> Table:
    """Return scores of each method on the test networks of each group, over all seeds.

    Args:
        groups: the group of each network, by its index in the zoo.
        measures: by name; they take what predictions.csv says of the networks of one group.
        title: of the column of groups.
    """
    rows = []
    for method in results.grid.methods:
        found: dict[str, list[tuple[int, list[float]]]] = {}
        for seed in range(results.grid.seeds):
            cell = Cell(method, setting, seed)
            if isinstance(results.runs[cell], Run):
                for group, own in _by_group(results, cell, groups, measures).items():
                    found.setdefault(group, []).append(own)
        for group in sorted(found, key=_natural):
            counts, scores = zip(*found[group], strict=True)
            columns = [str(Spread.of(list(column))) for column in zip(*scores, strict=True)]
            rows.append((find_method(method).title, group, f"{np.mean(counts):,.0f}", *columns))
    header = ("method", title, "networks", *measures)
    return Table("", header, rows, right=header[2:])


def groups_by_column(table: pa.Table, column: str) -> dict[int, str]:
    """Return the value of a column for each network, by its index.

    >>> groups_by_column(pa.table({"index": [0, 7], "kind": ["siren", "hash"]}), "kind")
    {0: 'siren', 7: 'hash'}
    """
    return dict(zip(table["index"].to_pylist(), column_of(table, column).tolist(), strict=True))


def group_sections(results: Results, table: pa.Table, measures: Mapping[str, Measure]) -> list[Section]:
    """Break the scores of every setting down: by columns that settings leave a value of out, or by kind."""
    settings = [results.task.setting(name) for name in results.grid.settings]
    columns = [setting.left_out.column for setting in settings if setting.left_out is not None]
    if not columns and KIND in table.column_names and len(table[KIND].unique()) > 1:
        columns = [KIND]
    sections = []
    for column in dict.fromkeys(columns):
        groups = groups_by_column(table, column)
        body = "".join(
            f"<h3>{capitalized(setting.title)}</h3>"
            + html_table(scores_by_group(results, setting.name, groups, measures, column))
            for setting in settings
        )
        sections.append(Section(f"Scores by {column}", body + paragraph(NOTE, "note")))
    return sections


def _by_group(
    results: Results, cell: Cell, groups: Mapping[int, str], measures: Mapping[str, Measure]
) -> dict[str, tuple[int, list[float]]]:
    """Return the number of networks and their scores for each group that is large enough."""
    test = results.predictions(cell)["test"]
    names = np.array([groups[index] for index in test.indices.tolist()])
    found = {}
    for name in sorted(set(names.tolist())):
        own = names == name
        if own.sum() >= LEAST:
            predicted, true = test.predicted[own], test.true[own]
            found[name] = int(own.sum()), [measure(predicted, true) for measure in measures.values()]
    return found


def _natural(name: str) -> tuple[str, int]:
    """Sort "cnn2d 16" before "cnn2d 128"."""
    family, _, size = name.rpartition(" ")
    return (family, int(size)) if size.isdigit() else (name, 0)
