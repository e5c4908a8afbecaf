"""Rivals of the predictor that see no weights: hyper-parameters, training loss and accuracy."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import torch
from sklearn.ensemble import HistGradientBoostingRegressor

from graph_metanetworks.tasks.accuracy.scores import Scores, scores
from graph_metanetworks.training.job import Split
from graph_metanetworks.zoo.shard import CONFIG, ROLE

LOSS, ACCURACY = "train_loss", "train_accuracy"


def config_columns(table: pa.Table) -> list[str]:
    """Return the columns of hyper-parameters that are single values."""
    return [
        field.name
        for field in table.schema
        if (field.metadata or {}).get(ROLE) == CONFIG
        and not pa.types.is_nested(field.type)
        and _tells_something(table[field.name])
    ]


def _tells_something(column: pa.ChunkedArray) -> bool:
    """Return whether a column has values, and not another text for each network, such as its file name."""
    names = pa.types.is_string(column.type) and len(column) > 1 and len(column.unique()) == len(column)
    return column.null_count < len(column) and not names


def as_features(table: pa.Table, columns: list[str]) -> np.ndarray:  # [N, columns]
    """Return columns as numbers; strings become their rank in alphabetical order."""
    parts = []
    for name in columns:
        values = table[name].to_pylist()
        if any(isinstance(value, str) for value in values):
            known = {value: number for number, value in enumerate(sorted({str(v) for v in values}))}
            values = [known[str(value)] for value in values]
        parts.append(np.array(values, dtype=float))
    return np.stack(parts, axis=1) if parts else np.zeros((len(table), 0))


def rival_predictions(table: pa.Table, labels: np.ndarray, split: Split) -> dict[str, np.ndarray]:
    """Predict test networks by gradient boosting on each choice of columns."""
    known = config_columns(table)
    loss, accuracy = ([name] if name in table.column_names else [] for name in (LOSS, ACCURACY))
    choices = {
        "hyper-parameters": known,
        "training loss": loss,
        "both of them": [*known, *loss] if loss else [],
        "training accuracy": accuracy,
    }
    found = {}
    for name, columns in choices.items():
        if columns:
            features = as_features(table, columns)
            leaf = max(2, min(20, len(split.train) // 20))
            regressor = HistGradientBoostingRegressor(
                max_iter=200,
                learning_rate=0.05,
                min_samples_leaf=leaf,
                early_stopping=False,  # pyright: ignore[reportArgumentType]
                random_state=0,
            )
            regressor.fit(features[split.train], labels[split.train])
            found[name] = np.clip(regressor.predict(features[split.test]), 0, 1)
    return found


def within_groups(
    predicted: np.ndarray, true: np.ndarray, groups: np.ndarray, least: int = 8
) -> dict[str, Scores]:
    """Score each group of at least `least` networks."""
    found = {}
    for group in sorted(set(groups.tolist())):
        own = groups == group
        if own.sum() >= least:
            found[group] = scores(torch.from_numpy(predicted[own]), torch.from_numpy(true[own]))
    return found
