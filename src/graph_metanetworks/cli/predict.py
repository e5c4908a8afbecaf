"""`gmn predict`: the accuracy of networks from their weights."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import track

from graph_metanetworks.batch import Batch, collate
from graph_metanetworks.cli.checkpoint import load_checkpoint
from graph_metanetworks.cli.example import parse_example
from graph_metanetworks.cli.friendly import friendly_errors
from graph_metanetworks.cli.guess import guess_example
from graph_metanetworks.cli.target import load_network, parse_keyword, parse_literal
from graph_metanetworks.cli.train import say
from graph_metanetworks.errors import TaskError
from graph_metanetworks.table import Table
from graph_metanetworks.trace.tracer import trace
from graph_metanetworks.zoo.description import NAME as ZOO_FILE

if TYPE_CHECKING:
    from graph_metanetworks.tasks.accuracy import Prediction

SUFFIXES = (".safetensors", ".pt", ".pth", ".bin", ".ckpt")
BATCH = 16


def predict(
    run: Annotated[Path, typer.Argument(help="Folder of a run of gmn train accuracy.")],
    networks: Annotated[
        list[Path], typer.Argument(help="Checkpoints, folders of checkpoints, or a zoo; several.")
    ],
    network: Annotated[
        str | None,
        typer.Option(help="What the checkpoints belong to: file.py:name or module:name. Not for a zoo."),
    ] = None,
    arg: Annotated[list[str] | None, typer.Option(help="Argument of the network; repeat.")] = None,
    kwarg: Annotated[list[str] | None, typer.Option(help="Keyword argument, name=value; repeat.")] = None,
    input: Annotated[
        list[str] | None, typer.Option(help="An input of forward, as for gmn trace; repeat.")
    ] = None,
    level: Annotated[float, typer.Option(help="Probability that an interval holds the truth.")] = 0.9,
    csv_file: Annotated[Path | None, typer.Option("--csv", help="Write the predictions as CSV.")] = None,
    json_file: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="Write them as JSON; - prints them alone.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Predict the accuracy of networks, with an interval, and warn where it should not be trusted."""
    # Lightning takes seconds to import: only now, so that other commands stay quick
    from graph_metanetworks.tasks.accuracy import Predictor

    with friendly_errors(debug=debug):
        if not 0 < level < 1:
            raise TaskError(f"--level {level} must lie between 0 and 1, such as 0.9.")
        for file in (csv_file, Path(json_file) if json_file and json_file != "-" else None):
            if file is not None and file.exists():
                raise TaskError(f"{file} exists: nothing was written. Choose another name.")
        predictor = Predictor.load(run)
        batches = _batches(networks, network, arg or (), kwarg or (), input)
        shown = track(batches, "predicting", disable=quiet or json_file == "-", transient=True)
        found = [prediction for batch in shown for prediction in predictor(batch, level=level)]
        _report(found, level, csv_file, json_file)


def _batches(
    paths: Sequence[Path],
    target: str | None,
    args: Sequence[str],
    kwargs: Sequence[str],
    inputs: list[str] | None,
) -> Iterator[Batch]:
    zoos = [path for path in paths if (path / ZOO_FILE).is_file()]
    checkpoints = [file for path in paths if path not in zoos for file in _files(path)]
    if checkpoints and target is None:
        raise TaskError(
            f"which network {checkpoints[0]} belongs to is not known: name the class or function that builds "
            "it, as --network my_model.py:build."
        )
    for zoo in zoos:
        yield from _of_zoo(zoo)
    if checkpoints and target is not None:
        model = load_network(target, [*map(parse_literal, args)], dict(map(parse_keyword, kwargs))).eval()
        example = parse_example(inputs) if inputs else guess_example(model)
        graph = trace(model, *example.args, **example.kwargs)
        for start in range(0, len(checkpoints), BATCH):
            files = checkpoints[start : start + BATCH]
            weights = [{k: v.clone() for k, v in load_checkpoint(model, file).items()} for file in files]
            yield collate([(graph, own) for own in weights], names=[str(file) for file in files])


def _files(path: Path) -> list[Path]:
    """The checkpoints that a path stands for."""
    if path.is_file():
        return [path]
    if not path.exists():
        raise TaskError(f"there is no file or folder '{path}'.")
    found = sorted(file for file in path.rglob("*") if file.suffix in SUFFIXES and file.is_file())
    if not found:
        raise TaskError(f"the folder {path} has no checkpoints ({', '.join(SUFFIXES)}), and it is no zoo.")
    return found


def _of_zoo(folder: Path) -> Iterator[Batch]:
    """The networks of a zoo whose weights are finite; says which are left out."""
    import numpy as np

    from graph_metanetworks.tasks.traced_zoo import TracedZoo
    from graph_metanetworks.zoo.zoo import Zoo

    traced = TracedZoo(Zoo.open(folder))
    usable = np.flatnonzero(traced.finite)
    if len(usable) < len(traced):
        missing = len(traced) - len(usable)
        say(f"left out {missing:,} networks of {folder}: their weights are NaN or infinite.", "yellow")
    for start in range(0, len(usable), BATCH):
        yield traced.batch(usable[start : start + BATCH])


def _report(found: Sequence[Prediction], level: float, csv_file: Path | None, json_file: str | None) -> None:
    rows = [asdict(prediction) for prediction in found]
    if json_file == "-":
        typer.echo(json.dumps(rows, indent=2))
        return
    shown = [
        (p.name, f"{p.accuracy:.3f}", f"{p.low:.3f} to {p.high:.3f}", "far" if p.warning else "")
        for p in found
    ]
    header = ("network", "accuracy", f"{level:.0%} interval", "")
    typer.echo(Table("Predicted accuracy", header, shown, right=("accuracy",)).text())
    warned = [prediction for prediction in found if prediction.warning]
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
