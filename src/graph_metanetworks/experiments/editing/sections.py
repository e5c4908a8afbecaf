"""Sections of the editing report: errors of methods that learn nothing, pictures, error maps."""

from __future__ import annotations

from typing import cast

import numpy as np
import torch
from torch import Tensor

from graph_metanetworks.experiments.report.figures import as_image
from graph_metanetworks.experiments.report.page import Section, html_table, paragraph
from graph_metanetworks.experiments.results import Results
from graph_metanetworks.methods.registry import find_method
from graph_metanetworks.plot.image_sheet import Row, image_sheet
from graph_metanetworks.table import Table, capitalized
from graph_metanetworks.tasks.data import TaskData
from graph_metanetworks.tasks.editing.data import ImageZoo
from graph_metanetworks.tasks.editing.runner import EditRunner, Pictures
from graph_metanetworks.tasks.loading import load

SHOWN = 8  # test networks
DIGITS = 4
REFERENCES = {
    "identity": "Identity: the network as it is",
    "mean_image": "Mean image: the mean target of the training networks",
    "constant": "Best constant: the mean value of these targets",
}


def editing_sections(results: Results, data: TaskData) -> list[Section]:
    zoo = cast(ImageZoo, data)
    return [
        Section("What the errors mean", _references(results)),
        Section("Pictures", _pictures(results, zoo)),
    ]


def _references(results: Results) -> str:
    """Compare the error of each method with those of methods that learn nothing."""
    tables = ""
    for setting in results.grid.settings:
        runs = [run for method in results.grid.methods for run in results.of(method, setting)]
        if not runs:
            continue
        errors = {title: [run.scores["test"][name] for run in runs] for name, title in REFERENCES.items()}
        for method in results.grid.methods:
            own = [run.scores["test"]["loss"] for run in results.of(method, setting)]
            errors |= {find_method(method).title: own} if own else {}
        means = {title: float(np.mean(own)) for title, own in errors.items()}
        identity = means[REFERENCES["identity"]]
        rows = [
            (title, f"{error:.{DIGITS}f}", f"{error / identity:.0%}")
            for title, error in sorted(means.items(), key=lambda item: -item[1])
        ]
        header = ("", "test MSE", "of the identity")
        tables += f"<h3>{capitalized(results.task.setting(setting).title)}</h3>"
        tables += html_table(Table("Errors", header, rows, right=header[1:]))
    return tables


def _pictures(results: Results, data: ImageZoo) -> str:
    body = ""
    for setting in results.grid.settings:
        cells = results.first_runs(setting)
        if not cells:
            continue
        task = results.grid.task_of(next(iter(cells.values())), None)
        test = task.split(data, setting, 0).test
        chosen = test[np.linspace(0, len(test) - 1, min(SHOWN, len(test))).astype(int)]
        batch = data.networks.batch(chosen)
        runners = {title: cast(EditRunner, load(cell.folder(results.out))) for title, cell in cells.items()}
        targets = data.edited[chosen].values
        found = {title: runner.pictures(batch, targets=targets) for title, runner in runners.items()}
        title = results.task.setting(setting).title
        body += f"<h3>{capitalized(title)}</h3>"
        body += as_image(image_sheet(_edits(found)), f"edits, {title}")
        body += as_image(image_sheet(_error_maps(found)), f"errors, {title}")
    edited = "the images" if results.task.options.targets == "images" else "what the INR renders"
    return body + paragraph(
        f"Test networks of the first seed. Targets: {data.edit} of {edited}. Numbers are mean "
        "squared errors in the values that networks were fitted to. Error maps show the size of the error in "
        "brightness, black for none, all on one scale.",
        "note",
    )


def _edits(found: dict[str, Pictures]) -> list[Row]:
    first = next(iter(found.values()))
    edits = [Row(title, own.edited, _notes(own.error)) for title, own in found.items()]
    return [
        Row("INR", first.original, _notes(first.identity)),
        Row("target", first.target),
        *edits,
    ]


def _error_maps(found: dict[str, Pictures]) -> list[Row]:
    first = next(iter(found.values()))
    errors = {"identity": (first.original - first.target).abs().mean(1, keepdim=True)}
    errors |= {title: (own.edited - own.target).abs().mean(1, keepdim=True) for title, own in found.items()}
    highest = float(torch.stack([own.amax() for own in errors.values()]).amax())
    return [Row(title, own, colours="inferno", highest=highest) for title, own in errors.items()]


def _notes(errors: Tensor) -> list[str]:
    return [f"{error:.4f}" for error in errors.tolist()]
