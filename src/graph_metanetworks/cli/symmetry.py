"""`gmn symmetry`: which neurons of a network may be permuted, and which may not, and why."""

from __future__ import annotations

import json
from typing import Annotated, Literal

import typer

from graph_metanetworks.checkpoints.networks import trace_on
from graph_metanetworks.cli import options
from graph_metanetworks.cli.friendly import Debug, friendly_errors
from graph_metanetworks.cli.named import Saved, named_network
from graph_metanetworks.cli.output import STANDARD, check_writable, write_text
from graph_metanetworks.graph.description import describe_symmetry
from graph_metanetworks.symmetry.export import export as exported
from graph_metanetworks.trace.tracer import Tracer


def symmetry(
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
    meta: options.Meta = False,
    json_file: options.Json = None,
    export: Annotated[
        Literal["git-re-basin", "torch-pruning", "json"] | None,
        typer.Option(help="Print the permutations in the form that another tool takes."),
    ] = None,
    debug: Debug = False,
) -> None:
    """Explain the symmetries of a network: permutations of neurons, and scales of units."""
    with friendly_errors(debug=debug):
        check_writable(json_file)
        saved = Saved(checkpoint, key, ignore_extra)
        named = named_network(target, arg, kwarg, input, high=high, meta=meta, saved=saved)
        graph = trace_on(Tracer(unknown=unknown, unused=unused), named.network, named.example)
        if export is not None:
            typer.echo(exported(graph.symmetry, export))
            return
        if json_file != STANDARD:
            typer.echo(f"{graph.name}: {graph.symmetry.explain()}\n\n{graph.scaling.explain()}")
        if json_file:
            write_text(json_file, json.dumps(describe_symmetry(graph), indent=2))
