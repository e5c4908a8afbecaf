"""Scores by family and hidden size: how far predictions transfer to other widths."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from graph_metanetworks.experiments.grid import Cell
from graph_metanetworks.experiments.results import Results, Spread
from graph_metanetworks.methods.registry import find_method
from graph_metanetworks.table import Table
from graph_metanetworks.tasks.accuracy.scores import scores
from graph_metanetworks.training.run_folder import Run

LEAST = 8  # networks of a group


def scores_by_size(results: Results, setting: str, groups: Mapping[int, str]) -> Table:
    """Return R², tau and recalibrated R² of each method on the test networks of each group, over all seeds.

    Recalibrated R² is that after the best linear map from predictions to accuracies: what a constant offset
    or a wrong slope costs is not counted.

    Args:
        groups: family and size of each network, by its index in the zoo.
    """
    rows = []
    for method in results.grid.methods:
        cells = [Cell(method, setting, seed) for seed in range(results.grid.seeds)]
        found: dict[str, list[tuple[float, float, float]]] = {}
        for cell in cells:
            if isinstance(results.runs[cell], Run):
                for group, own in _by_group(results, cell, groups).items():
                    found.setdefault(group, []).append(own)
        for group in sorted(found, key=_natural):
            columns = [str(Spread.of(list(column))) for column in zip(*found[group], strict=True)]
            rows.append((find_method(method).title, group, *columns))
    return Table("", ("method", "size", "R²", "tau", "recalibrated R²"), rows, right=("R²", "tau"))


def _by_group(
    results: Results, cell: Cell, groups: Mapping[int, str]
) -> dict[str, tuple[float, float, float]]:
    test = results.predictions(cell)["test"]
    names = np.array([groups[index] for index in test.indices.tolist()])
    found = {}
    for name in sorted(set(names.tolist())):
        own = names == name
        if own.sum() >= LEAST:
            predicted, true = test.predicted[own], test.true[own]
            measured = scores(torch.from_numpy(predicted), torch.from_numpy(true))
            found[name] = (measured.r2, measured.tau, recalibrated_r2(predicted, true))
    return found


def recalibrated_r2(predicted: np.ndarray, true: np.ndarray) -> float:
    """Return R² after the best linear map: the squared correlation.

    >>> round(recalibrated_r2(np.array([0.1, 0.2, 0.3]), np.array([0.4, 0.6, 0.8])), 6)
    1.0
    """
    if predicted.std() == 0 or true.std() == 0:
        return float("nan")
    return float(np.corrcoef(predicted, true)[0, 1] ** 2)


def _natural(name: str) -> tuple[str, int]:
    """Sort "cnn2d 16" before "cnn2d 128"."""
    family, _, size = name.rpartition(" ")
    return family, int(size) if size.isdigit() else 0
