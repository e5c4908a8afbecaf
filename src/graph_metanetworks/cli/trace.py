"""`gmn trace`: the parameter graph of a network named on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from time import perf_counter
from typing import Annotated, Literal

import typer
from rich.console import Console

from graph_metanetworks.cli import options
from graph_metanetworks.cli.checkpoint import load_checkpoint
from graph_metanetworks.cli.friendly import Debug, friendly_errors
from graph_metanetworks.cli.named import named_network, traced_on
from graph_metanetworks.errors import TraceError
from graph_metanetworks.graph.description import describe
from graph_metanetworks.graph.parameter_graph import ParameterGraph
from graph_metanetworks.graph.summary import summary
from graph_metanetworks.plot import plot as draw
from graph_metanetworks.plot.formats import check_suffix
from graph_metanetworks.trace.tracer import Tracer


def trace(
    target: options.Target,
    arg: options.Args = None,
    kwarg: options.Kwargs = None,
    input: options.Inputs = None,
    high: options.High = 10,
    checkpoint: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="Weights, .safetensors or .pt; --plot colours edges."),
    ] = None,
    unknown: options.Unknown = "raise",
    unused: options.Unused = "raise",
    attention: Annotated[
        Literal["distinct", "shared"], typer.Option(help="Nodes of queries, keys and values.")
    ] = "distinct",
    heads: Annotated[
        Literal["node", "index"], typer.Option(help="Heads as structural nodes, or as a feature.")
    ] = "node",
    meta: options.Meta = False,
    plot: Annotated[Path | None, typer.Option(help="Draw the graph to a .svg, .png or .pdf file.")] = None,
    json_file: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="Write the graph as JSON; - prints it alone.")
    ] = None,
    max_rows: Annotated[int, typer.Option(min=3, help="Rows of each table of the summary.")] = 40,
    debug: Debug = False,
) -> None:
    """Trace a network, print its parameter graph, and draw or save it."""
    with friendly_errors(debug=debug):
        if plot:
            check_suffix(plot)
        if meta and checkpoint:
            raise TraceError("a network on the meta device has no weights: drop --meta or --checkpoint.")
        network, example = named_network(target, arg, kwarg, input, high=high, meta=meta)
        weights = load_checkpoint(network, checkpoint) if checkpoint else None
        tracer = Tracer(unknown=unknown, unused=unused, attention=attention, heads=heads)
        start = perf_counter()
        graph = traced_on(tracer, network, example, guessed=not input)
        seconds = perf_counter() - start
        picture = draw(graph, plot, weights=weights) if plot else None
        _report(graph, json_file, max_rows, seconds, picture)


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
