"""Sections of the contrastive report: maps of embeddings, what a linear regression reads off them, curves."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from graph_metanetworks.experiments.contrastive import figures
from graph_metanetworks.experiments.report.page import Section, paragraph
from graph_metanetworks.experiments.results import Results
from graph_metanetworks.table import capitalized
from graph_metanetworks.tasks.data import TaskData
from graph_metanetworks.tasks.loading import load
from graph_metanetworks.training.run_folder import PREDICTIONS

SHOWN = 1_000  # test networks in pictures
MAPS = (
    "The first two principal components of the embeddings of test networks, before the projector. Runs of "
    "the first seed."
)


@dataclass(frozen=True, eq=False)
class Read:
    """True and predicted columns of the test networks of a run."""

    indices: np.ndarray
    true: dict[str, np.ndarray]
    predicted: dict[str, np.ndarray]


def contrastive_sections(results: Results, data: TaskData) -> list[Section]:
    names = results.task.options.column_names
    curves = Section("Loss, error, retrieval", figures.curves(results))
    if not names:
        return [curves]
    maps = regressions = ""
    for setting in results.grid.settings:
        cells = results.first_runs(setting)
        if not cells:
            continue
        read = {
            title: read_columns(cell.folder(results.out) / PREDICTIONS, names)
            for title, cell in cells.items()
        }
        embedded = {
            title: _embed(cell.folder(results.out), read[title].indices, data)
            for title, cell in cells.items()
        }
        title = results.task.setting(setting).title
        heading = f"<h3>{capitalized(title)}</h3>"
        maps += heading + figures.maps(embedded, {method: own.true for method, own in read.items()}, title)
        scattered = {method: (own.true, own.predicted) for method, own in read.items()}
        regressions += heading + figures.scatter(scattered, title)
    return [
        Section("Embeddings", maps + paragraph(MAPS, "note")),
        Section("Linear regression", regressions + paragraph(_about(data), "note")),
        curves,
    ]


def read_columns(path: Path, names: tuple[str, ...], part: str = "test") -> Read:
    """Read some of the test networks of a run from its predictions.csv."""
    with path.open() as file:
        rows = [row for row in csv.DictReader(file) if row["part"] == part][:SHOWN]
    true, predicted = (
        {name: np.array([float(row[f"{kind} {name}"]) for row in rows]) for name in names}
        for kind in ("true", "predicted")
    )
    return Read(np.array([int(row["index"]) for row in rows]), true, predicted)


def _embed(folder: Path, indices: np.ndarray, data: TaskData) -> np.ndarray:  # [n, d]
    known = data.networks.zoo.table["index"].to_numpy()
    order = np.argsort(known)
    positions = order[np.searchsorted(known, indices, sorter=order)]
    return load(folder).embed(data.networks.batch(positions), quiet=True).numpy()


def _about(data: TaskData) -> str:
    variance = float(np.asarray(data.targets[np.flatnonzero(data.usable)]).var(axis=0).mean())
    return (
        "Ordinary linear regression from embeddings of the training networks, on test networks; runs of the "
        f"first seed. Predicting the mean of each column has a mean squared error of {variance:.2f}. In the "
        "settings called supervised, the same encoder was trained on the columns: its error with labels."
    )
