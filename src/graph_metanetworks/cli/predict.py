"""`gmn predict`: use a run on networks, from their weights."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Annotated, Any

import typer

from graph_metanetworks.cli import options
from graph_metanetworks.cli.friendly import Debug, friendly_errors
from graph_metanetworks.cli.named import network_reader
from graph_metanetworks.cli.output import STANDARD, check_writable, write_text
from graph_metanetworks.cli.parts import NetworksAt, Part, shown_parts
from graph_metanetworks.console import say
from graph_metanetworks.errors import TaskError
from graph_metanetworks.tasks.editing.runner import EditRunner
from graph_metanetworks.tasks.loading import load
from graph_metanetworks.tasks.runner import Runner
from graph_metanetworks.tasks.zoo_part import Applied


def predict(
    run: Annotated[Path, typer.Argument(help="Folder of a run of gmn train.")],
    networks: options.Paths,
    network: options.Network = None,
    arg: options.NetworkArgs = None,
    kwarg: options.NetworkKwargs = None,
    input: options.NetworkInputs = None,
    labels: options.Labels = None,
    key: options.Key = None,
    ignore_extra: options.IgnoreExtra = False,
    unused: options.Unused = "raise",
    level: Annotated[
        float | None, typer.Option(help="Probability that an interval holds the truth; 0.9 by default.")
    ] = None,
    csv_file: Annotated[
        str | None, typer.Option("--csv", metavar="FILE", help="Write CSV; - prints it and nothing else.")
    ] = None,
    json_file: options.Json = None,
    ray: options.Ray = None,
    quiet: options.Quiet = False,
    debug: Debug = False,
) -> None:
    """Predict what a run has learned, such as accuracies with intervals, and warn where not to trust it."""
    with friendly_errors(debug=debug):
        check_writable(csv_file, json_file, new=True)
        alone = STANDARD in (csv_file, json_file)
        runner = load(run)
        if isinstance(runner, EditRunner):
            raise TaskError(f"{run} edits networks: use it with {runner.usage.format(run=run)}.")
        chosen = {} if level is None else {"level": level}
        if chosen and "level" not in runner.options:
            raise TaskError(f"--level is for runs that predict intervals, and {run} does not.")
        reader = network_reader(network, arg, kwarg, input, key, ignore_extra, unused)
        there = NetworksAt.find(networks, reader, labels)
        _load.cache_clear()
        work = Predict(str((runner.folder or run).resolve()), tuple(chosen.items()))
        parts = shown_parts(work, there, "predicting", ray=ray, quiet=quiet or alone)
        found = [prediction for part in parts for prediction in part.results]
        there.require(bool(found), "predict")
        _report(runner, found, csv_file, json_file)
        there.report_left_out()


@dataclass(frozen=True)
class Predict:
    """Predict for a part. Every process loads the run once."""

    run: str
    options: tuple[tuple[str, Any], ...]

    def __call__(self, part: Part) -> Applied[Any]:
        return part.apply(lambda batch: _load(self.run).predict(batch, **dict(self.options)))


@cache
def _load(run: str) -> Runner:
    return load(run)


def _report(runner: Runner, found: Sequence[Any], csv_file: str | None, json_file: str | None) -> None:
    rows = [runner.record(prediction) for prediction in found]
    if STANDARD not in (csv_file, json_file):
        typer.echo(runner.table(found).text())
        _warn(found)
    if csv_file:
        write_text(csv_file, _csv([_flat(row) for row in rows]))
    if json_file:
        write_text(json_file, json.dumps(rows, indent=2))


def _warn(found: Sequence[Any]) -> None:
    warned = [prediction for prediction in found if getattr(prediction, "warning", "")]
    for prediction in warned[:3]:
        say(f"warning: {prediction.name} is {prediction.warning}", "yellow")
    if len(warned) > 3:
        say(f"{len(warned) - 3:,} more are out of distribution; --csv lists them.", "yellow")


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """Give each entry of a dictionary or tuple, such as the probability of a class, its own column."""
    flat = {}
    for name, value in row.items():
        entries = dict(enumerate(value)) if isinstance(value, tuple) else value
        flat |= {f"{name} {k}": v for k, v in entries.items()} if isinstance(entries, dict) else {name: value}
    return flat


def _csv(rows: list[dict[str, Any]]) -> str:
    text = StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().rstrip("\n")
