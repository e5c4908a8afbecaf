"""`gmn predict`: use a run on networks, from their weights."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from io import StringIO
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import track

from graph_metanetworks.checkpoints.builder import Builder
from graph_metanetworks.checkpoints.example import parse_example, parse_literal
from graph_metanetworks.checkpoints.networks import NetworkReader
from graph_metanetworks.cli import options
from graph_metanetworks.cli.candidates import NOT_FINITE, Candidates
from graph_metanetworks.cli.friendly import Debug, friendly_errors
from graph_metanetworks.cli.output import STANDARD, check_writable, write_text
from graph_metanetworks.cli.target import parse_keyword
from graph_metanetworks.console import say
from graph_metanetworks.errors import TaskError
from graph_metanetworks.graph.batch import Batch
from graph_metanetworks.tasks.loading import load
from graph_metanetworks.tasks.runner import Runner
from graph_metanetworks.zoo.from_folder.labels import Labels


def predict(
    run: Annotated[Path, typer.Argument(help="Folder of a run of gmn train.")],
    networks: Annotated[list[Path], typer.Argument(help="Checkpoints, zoos, or folders of them; several.")],
    network: Annotated[
        str | None,
        typer.Option(
            help="Builder of the checkpoints' networks: file.py:name or module:name. Not for zoos or folders "
            "of Hugging Face."
        ),
    ] = None,
    arg: Annotated[list[str] | None, typer.Option(help="Argument of the network; repeat.")] = None,
    kwarg: Annotated[list[str] | None, typer.Option(help="Keyword argument, name=value; repeat.")] = None,
    input: Annotated[
        list[str] | None, typer.Option(help="An input of forward, as for gmn trace; repeat.")
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(help="Table with a row per checkpoint, if the builder needs it.")
    ] = None,
    key: options.Key = None,
    ignore_extra: options.IgnoreExtra = False,
    level: Annotated[
        float | None, typer.Option(help="Probability that an interval holds the truth; 0.9 by default.")
    ] = None,
    csv_file: Annotated[
        str | None, typer.Option("--csv", metavar="FILE", help="Write CSV; - prints it and nothing else.")
    ] = None,
    json_file: options.Json = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Hide progress.")] = False,
    debug: Debug = False,
) -> None:
    """Predict what a run has learned, such as accuracies with intervals, and warn where not to trust it."""
    with friendly_errors(debug=debug):
        check_writable(csv_file, json_file, new=True)
        alone = STANDARD in (csv_file, json_file)
        runner = load(run)
        further = {} if level is None else {"level": level}
        if further and "level" not in runner.options:
            raise TaskError(f"--level is for runs that predict intervals, and {run} does not.")
        builder = _builder(network, arg or (), kwarg or ())
        reader = NetworkReader(builder, parse_example(input) if input else None, key, ignore_extra)
        candidates = Candidates.find(networks)
        batches = _batches(candidates, reader, labels)
        shown = track(batches, "predicting", disable=quiet or alone, transient=True)
        found = [prediction for batch in shown for prediction in runner.predict(batch, **further)]
        if not found:
            raise TaskError(_nothing(candidates))
        _report(runner, found, csv_file, json_file)
        candidates.report_left_out()


def _builder(target: str | None, args: Sequence[str], kwargs: Sequence[str]) -> Builder | None:
    if target is None:
        return None
    return Builder.of(target, args=[*map(parse_literal, args)], kwargs=dict(map(parse_keyword, kwargs)))


def _batches(candidates: Candidates, reader: NetworkReader, labels: Path | None) -> Iterator[Batch]:
    yield from candidates.of_zoos()
    files = [str(file) for file in candidates.checkpoints]
    rows = Labels.read(labels).by_file(files) if labels and files else None
    yield from candidates.of_checkpoints(reader, rows)


def _nothing(candidates: Candidates) -> str:
    """Return why nothing was predicted."""
    reasons = [one for one in candidates.left_out if one.reason != NOT_FINITE]
    if not reasons:
        return "nothing to predict: the weights of every network are NaN or infinite. Did training diverge?"
    more = "".join(f"\n{one.line}" for one in reasons[1:3])
    rest = f"\nand {len(reasons) - 3:,} more" if len(reasons) > 3 else ""
    return reasons[0].reason + more + rest


def _report(runner: Runner, found: Sequence[Any], csv_file: str | None, json_file: str | None) -> None:
    rows = [asdict(prediction) for prediction in found]
    if STANDARD not in (csv_file, json_file):
        typer.echo(runner.table(found).text())
        _warn(found)
    if csv_file:
        write_text(csv_file, _csv(rows, [field.name for field in fields(found[0])]))
    if json_file:
        write_text(json_file, json.dumps(rows, indent=2))


def _warn(found: Sequence[Any]) -> None:
    warned = [prediction for prediction in found if getattr(prediction, "warning", "")]
    for prediction in warned[:3]:
        say(f"warning: {prediction.name} is {prediction.warning}", "yellow")
    if len(warned) > 3:
        say(f"{len(warned) - 3:,} more are out of distribution; --csv lists them.", "yellow")


def _csv(rows: list[dict[str, Any]], header: list[str]) -> str:
    text = StringIO()
    writer = csv.DictWriter(text, header, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().rstrip("\n")
