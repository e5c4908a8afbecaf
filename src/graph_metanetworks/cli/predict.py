"""`gmn predict`: use a run on networks, from their weights."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import track

from graph_metanetworks.cli.candidates import Candidates
from graph_metanetworks.checkpoints.example import parse_example, parse_literal
from graph_metanetworks.cli.friendly import Debug, friendly_errors
from graph_metanetworks.checkpoints.guess import guess_example
from graph_metanetworks.cli.target import load_network, parse_keyword
from graph_metanetworks.console import say
from graph_metanetworks.errors import TaskError
from graph_metanetworks.graph.batch import Batch
from graph_metanetworks.tasks.loading import load
from graph_metanetworks.tasks.runner import Runner


def predict(
    run: Annotated[Path, typer.Argument(help="Folder of a run of gmn train.")],
    networks: Annotated[list[Path], typer.Argument(help="Checkpoints, zoos, or folders of them; several.")],
    network: Annotated[
        str | None,
        typer.Option(help="Builder of the checkpoints' network: file.py:name or module:name. Not for a zoo."),
    ] = None,
    arg: Annotated[list[str] | None, typer.Option(help="Argument of the network; repeat.")] = None,
    kwarg: Annotated[list[str] | None, typer.Option(help="Keyword argument, name=value; repeat.")] = None,
    input: Annotated[
        list[str] | None, typer.Option(help="An input of forward, as for gmn trace; repeat.")
    ] = None,
    level: Annotated[
        float | None, typer.Option(help="Probability that an interval holds the truth; 0.9 by default.")
    ] = None,
    csv_file: Annotated[Path | None, typer.Option("--csv", help="Write the predictions as CSV.")] = None,
    json_file: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="Write them as JSON; - prints them alone.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Hide progress.")] = False,
    debug: Debug = False,
) -> None:
    """Predict what a run has learned, such as accuracies with intervals, and warn where not to trust it."""
    with friendly_errors(debug=debug):
        for file in (csv_file, Path(json_file) if json_file and json_file != "-" else None):
            if file is not None:
                _check_new(file)
        runner = load(run)
        options = {} if level is None else {"level": level}
        if options and "level" not in runner.options:
            raise TaskError(f"--level is for runs that predict intervals, and {run} does not.")
        batches = _batches(networks, network, arg or (), kwarg or (), input)
        shown = track(batches, "predicting", disable=quiet or json_file == "-", transient=True)
        found = [prediction for batch in shown for prediction in runner.predict(batch, **options)]
        if not found:
            raise TaskError(
                "nothing to predict: the weights of every network are NaN or infinite. Did training diverge?"
            )
        _report(runner, found, csv_file, json_file)


def _batches(
    paths: Sequence[Path],
    target: str | None,
    args: Sequence[str],
    kwargs: Sequence[str],
    inputs: list[str] | None,
) -> Iterator[Batch]:
    candidates = Candidates.find(paths)
    if candidates.checkpoints and target is None:
        raise TaskError(
            f"the network of {candidates.checkpoints[0]} is unknown: name the class or function that builds "
            "it, as --network my_model.py:build."
        )
    yield from candidates.of_zoos()
    if candidates.checkpoints and target is not None:
        model = load_network(target, [*map(parse_literal, args)], dict(map(parse_keyword, kwargs))).eval()
        yield from candidates.of_checkpoints(model, parse_example(inputs) if inputs else guess_example(model))


def _check_new(file: Path) -> None:
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
