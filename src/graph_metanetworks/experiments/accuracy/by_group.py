"""Accuracy scores by group: how far predictions transfer to other widths, or to what was left out."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from graph_metanetworks.experiments.report.groups import scores_by_group
from graph_metanetworks.experiments.results import Results
from graph_metanetworks.table import Table
from graph_metanetworks.tasks.accuracy.scores import scores


def accuracy_by_group(results: Results, setting: str, groups: Mapping[int, str], title: str) -> Table:
    """Return R², tau and recalibrated R² of each method on the test networks of each group, over all seeds.

    Recalibrated R² is that after the best linear map from predictions to accuracies: what a constant offset
    or a wrong slope costs is not counted.
    """
    measures = {"R²": _r2, "tau": _tau, "recalibrated R²": recalibrated_r2}
    return scores_by_group(results, setting, groups, measures, title)


def _r2(predicted: np.ndarray, true: np.ndarray) -> float:
    return scores(torch.from_numpy(predicted), torch.from_numpy(true)).r2


def _tau(predicted: np.ndarray, true: np.ndarray) -> float:
    return scores(torch.from_numpy(predicted), torch.from_numpy(true)).tau


def recalibrated_r2(predicted: np.ndarray, true: np.ndarray) -> float:
    """Return R² after the best linear map: the squared correlation.

    >>> round(recalibrated_r2(np.array([0.1, 0.2, 0.3]), np.array([0.4, 0.6, 0.8])), 6)
    1.0
    """
    if predicted.std() == 0 or true.std() == 0:
        return float("nan")
    return float(np.corrcoef(predicted, true)[0, 1] ** 2)
