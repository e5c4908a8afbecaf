"""Scores by group: each network counts in its own group, over all seeds."""

import csv
from pathlib import Path

import numpy as np

from graph_metanetworks.experiments import Cell, Grid, Results
from graph_metanetworks.experiments.report.groups import scores_by_group
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


def test_scores_are_those_of_each_group(tmp_path: Path) -> None:
    grid = Grid(Accuracy(), methods=("gmn",), settings=("kind!=hash",), seeds=2)
    wrong = {0: set(range(5)), 1: {0, 20}}
    runs = {cell: write_run(tmp_path, cell, wrong[cell.seed]) for cell in grid.cells()}
    groups = {index: "hash" if index < 10 else "siren" if index < 27 else "grid" for index in range(30)}
    right = {"correct": lambda predicted, true: float(np.mean(predicted == true))}
    table = scores_by_group(Results(grid, tmp_path, runs), "kind!=hash", groups, right, "kind")
    assert table.header == ("method", "kind", "networks", "correct")
    assert table.rows == [  # three grids are too few
        ("GMN", "hash", "10", "0.700 ± 0.283"),
        ("GMN", "siren", "17", "0.971 ± 0.042"),
    ]
