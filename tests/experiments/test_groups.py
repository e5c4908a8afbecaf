"""Scores by group: each network counts in its own group, over all seeds."""

import csv
from pathlib import Path

import numpy as np
import pyarrow as pa

from graph_metanetworks.experiments import Cell, Grid, Results
from graph_metanetworks.experiments.report.groups import group_sections, scores_by_group
from graph_metanetworks.tasks.accuracy import Accuracy
from graph_metanetworks.training.run_folder import PREDICTIONS, Run


def write_run(out: Path, cell: Cell, wrong: set[int]) -> Run:
    """Write predictions for thirty test networks of class 1, some of them wrong."""
    folder = cell.folder(out)
    folder.mkdir(parents=True)
    rows = [(index, "test", 1, 0 if index in wrong else 1) for index in range(30)]
    with (folder / PREDICTIONS).open("w", newline="") as file:
        csv.writer(file).writerows([("index", "part", "true", "predicted"), *rows])
    return Run("accuracy", "0", {}, {}, {"scores": {}})


RIGHT = {"correct": lambda predicted, true: float(np.mean(predicted == true))}


def results(tmp_path: Path, setting: str) -> Results:
    grid = Grid(Accuracy(), methods=("gmn",), settings=(setting,), seeds=2)
    wrong = {0: set(range(5)), 1: {0, 20}}
    runs = {cell: write_run(tmp_path, cell, wrong[cell.seed]) for cell in grid.cells()}
    return Results(grid, tmp_path, runs)


def kinds() -> list[str]:
    return ["hash"] * 10 + ["siren"] * 17 + ["grid"] * 3


def test_scores_are_those_of_each_group(tmp_path: Path) -> None:
    groups = dict(enumerate(kinds()))
    table = scores_by_group(results(tmp_path, "kind!=hash"), "kind!=hash", groups, RIGHT, "kind")
    assert table.header == ("method", "kind", "networks", "correct")
    assert table.rows == [  # three grids are too few
        ("GMN", "hash", "10", "0.700 ± 0.283"),
        ("GMN", "siren", "17", "0.971 ± 0.042"),
    ]


def test_the_report_breaks_scores_down(tmp_path: Path) -> None:
    table = pa.table({"index": range(30), "kind": kinds(), "hidden": [8] * 15 + [16] * 15})
    (by_kind,) = group_sections(results(tmp_path / "0", "50"), table, RIGHT)
    assert by_kind.title == "Scores by kind"
    assert "siren" in by_kind.body
    (by_size,) = group_sections(results(tmp_path / "1", "hidden!=16"), table, RIGHT)
    assert by_size.title == "Scores by hidden"
    assert "Trained without hidden 16" in by_size.body
    assert group_sections(results(tmp_path / "2", "50"), table.drop_columns(["kind"]), RIGHT) == []
