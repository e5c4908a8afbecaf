"""`gmn trace`: the parameter graph of a network named on the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Annotated, Literal

import torch
import typer
from rich.console import Console

from graph_metanetworks.cli.checkpoint import load_checkpoint
from graph_metanetworks.cli.example import Example, parse_example
from graph_metanetworks.cli.friendly import friendly_errors
from graph_metanetworks.cli.guess import guess_example
from graph_metanetworks.cli.target import load_network, parse_keyword, parse_literal
from graph_metanetworks.describe import describe
from graph_metanetworks.errors import TraceError
from graph_metanetworks.graph import ParameterGraph
from graph_metanetworks.plot import plot as draw
from graph_metanetworks.plot.canvas import check_suffix
from graph_metanetworks.summary import summary
from graph_metanetworks.trace.tracer import Tracer


def trace(
    target: Annotated[
        str,
        typer.Argument(
            help="The network: module:name or path/to/file.py:name of a class, of a function that "
            "returns a network, or of a network. For example torch.nn:Linear."
        ),
    ],
    arg: Annotated[
        list[str] | None, typer.Option(help="Argument of the class or function, a Python literal; repeat.")
    ] = None,
    kwarg: Annotated[list[str] | None, typer.Option(help="Keyword argument, name=value; repeat.")] = None,
    input: Annotated[
        list[str] | None,
        typer.Option(
            help="An input of forward: 1x3x32x32, 2x7:int64, name=2x7 or name=literal; repeat. Guessed for "
            "well known modules."
        ),
    ] = None,
    high: Annotated[int, typer.Option(min=1, help="Integer inputs are drawn from 0 to HIGH - 1.")] = 10,
    checkpoint: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="Weights, .safetensors or .pt; --plot colours edges."),
    ] = None,
    unknown: Annotated[
        Literal["raise", "pin"],
        typer.Option(help="Operations without a rule: raise, or pin what they touch."),
    ] = "raise",
    unused: Annotated[
        Literal["raise", "keep"], typer.Option(help="Parameters the example never reached: raise, or keep.")
    ] = "raise",
    attention: Annotated[
        Literal["distinct", "shared"], typer.Option(help="Nodes of queries, keys and values.")
    ] = "distinct",
    heads: Annotated[
        Literal["node", "index"], typer.Option(help="Heads as structural nodes, or as a feature.")
    ] = "node",
    meta: Annotated[bool, typer.Option("--meta", help="Build on the meta device, without memory.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw the graph to a .svg, .png or .pdf file.")] = None,
    json_file: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="Write the graph as JSON; - prints it alone.")
    ] = None,
    max_rows: Annotated[int, typer.Option(min=3, help="Rows of each table of the summary.")] = 40,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Trace a network, print its parameter graph, and draw or save it."""
    with friendly_errors(debug=debug):
        if plot:
            check_suffix(plot)
        if meta and checkpoint:
            raise TraceError("a network on the meta device has no weights: drop --meta or --checkpoint.")
        with torch.device("meta" if meta else "cpu"):
            args, kwargs = map(parse_literal, arg or ()), dict(map(parse_keyword, kwarg or ()))
            network = load_network(target, list(args), kwargs)
            example = parse_example(input, high=high) if input else guess_example(network)
        weights = load_checkpoint(network, checkpoint) if checkpoint else None
        tracer = Tracer(unknown=unknown, unused=unused, attention=attention, heads=heads)
        start = perf_counter()
        with _confessing(guess=None if input else example):
            graph = tracer.trace(network, *example.args, **example.kwargs)
        seconds = perf_counter() - start
        picture = draw(graph, plot, weights=weights) if plot else None
        _report(graph, json_file, max_rows, seconds, picture)


@contextmanager
def _confessing(guess: Example | None) -> Iterator[None]:
    """Errors on a guessed example say that it was guessed."""
    try:
        yield
    except TraceError as error:
        if guess is None:
            raise
        guessed = f"No --input was given, so it was guessed: {guess}. Pass your own."
        raise type(error)(f"{error}\n{guessed}") from error


def _report(
    graph: ParameterGraph, json_file: str | None, max_rows: int, seconds: float, picture: Path | None
) -> None:
    if json_file == "-":
        typer.echo(json.dumps(describe(graph), indent=2))
        return
    typer.echo(summary(graph, max_rows))
    console = Console(highlight=False)
    console.print(f"\ntraced in {seconds:.2f} s", style="dim")
    if json_file:
        Path(json_file).write_text(json.dumps(describe(graph), indent=2) + "\n")
        console.print(f"wrote {json_file}", style="green", markup=False)
    if picture:
        console.print(f"drew {picture}", style="green", markup=False)
