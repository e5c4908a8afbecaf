"""`gmn trace`: the parameter graph of a network named on the command line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from typing import Annotated, Literal

import typer
from torch import Tensor

from graph_metanetworks.checkpoints.networks import trace_on
from graph_metanetworks.cli import options
from graph_metanetworks.cli.friendly import Debug, friendly_errors
from graph_metanetworks.cli.named import Saved, named_network
from graph_metanetworks.cli.output import STANDARD, check_writable, write_text
from graph_metanetworks.console import say
from graph_metanetworks.graph.description import describe
from graph_metanetworks.graph.parameter_graph import ParameterGraph
from graph_metanetworks.graph.summary import summary
from graph_metanetworks.plot import Detail, level_of_detail
from graph_metanetworks.plot import plot as draw
from graph_metanetworks.plot.formats import check_suffix
from graph_metanetworks.trace.tracer import Tracer


def trace(
    target: options.Target = None,
    arg: options.Args = None,
    kwarg: options.Kwargs = None,
    input: options.Inputs = None,
    high: options.High = 10,
    checkpoint: options.Checkpoint = None,
    key: options.Key = None,
    ignore_extra: options.IgnoreExtra = False,
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
    detail: Annotated[
        Detail,
        typer.Option(
            help="Of the picture: neurons, groups, layers (repeated ones once); auto: what is readable."
        ),
    ] = "auto",
    json_file: options.Json = None,
    max_rows: Annotated[int, typer.Option(min=3, help="Rows of each table of the summary.")] = 40,
    debug: Debug = False,
) -> None:
    """Trace a network, print its parameter graph, and draw or save it."""
    with friendly_errors(debug=debug):
        if plot:
            check_suffix(plot)
        check_writable(plot, json_file)
        saved = Saved(checkpoint, key, ignore_extra)
        named = named_network(target, arg, kwarg, input, high=high, meta=meta, saved=saved)
        tracer = Tracer(unknown=unknown, unused=unused, attention=attention, heads=heads)
        start = perf_counter()
        graph = trace_on(tracer, named.network, named.example)
        seconds = perf_counter() - start
        if json_file != STANDARD:
            typer.echo(summary(graph, max_rows))
            say(f"\ntraced in {seconds:.2f} s", "dim")
        if json_file:
            write_text(json_file, json.dumps(describe(graph), indent=2))
        if plot:
            _draw(graph, plot, named.weights, detail, quiet=json_file == STANDARD)


def _draw(
    graph: ParameterGraph, path: Path, weights: Mapping[str, Tensor] | None, detail: Detail, *, quiet: bool
) -> None:
    level = level_of_detail(graph) if detail == "auto" else detail
    say(f"drew {draw(graph, path, weights=weights, detail=level)}", "green", err=quiet)
    if weights and level != "neurons":
        say(
            f"The picture shows {level}, which have no weights to colour. Use --detail neurons to draw all "
            f"{graph.num_nodes:,} nodes.",
            "yellow",
            err=quiet,
        )
