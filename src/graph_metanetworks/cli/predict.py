"""`gmn predict`: use a run on networks, from their weights."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer

from graph_metanetworks.cli import options
from graph_metanetworks.cli.checkpoint_batches import CheckpointOptions
from graph_metanetworks.cli.friendly import Debug, friendly_errors
from graph_metanetworks.cli.parts import NetworksAt, Part, shown_parts
from graph_metanetworks.console import say
from graph_metanetworks.errors import TaskError
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
    level: Annotated[
        float | None, typer.Option(help="Probability that an interval holds the truth; 0.9 by default.")
    ] = None,
    csv_file: Annotated[Path | None, typer.Option("--csv", help="Write the predictions as CSV.")] = None,
    json_file: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="Write them as JSON; - prints them alone.")
    ] = None,
    ray: options.Ray = None,
    quiet: options.Quiet = False,
    debug: Debug = False,
) -> None:
    """Predict what a run has learned, such as accuracies with intervals, and warn where not to trust it."""
    with friendly_errors(debug=debug):
        for file in (csv_file, Path(json_file) if json_file and json_file != "-" else None):
            if file is not None:
                check_new(file)
        runner = load(run)
        chosen = {} if level is None else {"level": level}
        if chosen and "level" not in runner.options:
            raise TaskError(f"--level is for runs that predict intervals, and {run} does not.")
        there = NetworksAt.find(networks, CheckpointOptions.given(network, arg, kwarg, input))
        _load.cache_clear()
        work = Predict(str(run.resolve()), tuple(chosen.items()))
        parts = shown_parts(work, there, "predicting", ray=ray, quiet=quiet or json_file == "-")
        found = [prediction for part in parts for prediction in part.results]
        if not found:
            raise TaskError(
                "nothing to predict: the weights of every network are NaN or infinite. Did training diverge?"
            )
        _report(runner, found, csv_file, json_file)


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


def check_new(file: Path) -> None:
    """That a file can be written is known before anything is predicted."""
    if file.exists():
        raise TaskError(f"{file} exists: nothing was written. Choose another name.")
    if not file.parent.is_dir():
        raise TaskError(f"cannot write {file}: there is no folder '{file.parent}'. Make it first.")
    if not os.access(file.parent, os.W_OK):
        raise TaskError(f"cannot write {file}: the folder '{file.parent}' may not be changed.")


def _report(runner: Runner, found: Sequence[Any], csv_file: Path | None, json_file: str | None) -> None:
    rows = [asdict(prediction) for prediction in found]
    if json_file == "-":
        typer.echo(json.dumps(rows, indent=2))
        return
    typer.echo(runner.table(found).text())
    warned = [prediction for prediction in found if getattr(prediction, "warning", "")]
    for prediction in warned[:3]:
        say(f"warning: {prediction.name} is {prediction.warning}", "yellow")
    if len(warned) > 3:
        say(f"{len(warned) - 3:,} more are out of distribution; --csv lists them.", "yellow")
    if csv_file:
        _write_csv(csv_file, rows, [field.name for field in fields(found[0])])
        say(f"wrote {csv_file}", "green")
    if json_file:
        Path(json_file).write_text(json.dumps(rows, indent=2) + "\n")
        say(f"wrote {json_file}", "green")


def _write_csv(path: Path, rows: list[dict], header: list[str]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, header)
        writer.writeheader()
        writer.writerows(rows)
