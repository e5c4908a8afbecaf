"""`gmn symmetry`: which neurons of a network may be permuted, and which may not, and why."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from graph_metanetworks.cli import options
from graph_metanetworks.cli.friendly import Debug, friendly_errors
from graph_metanetworks.cli.named import named_network, traced_on
from graph_metanetworks.symmetry.export import export as exported
from graph_metanetworks.trace.tracer import Tracer


def symmetry(
    target: options.Target,
    arg: options.Args = None,
    kwarg: options.Kwargs = None,
    input: options.Inputs = None,
    high: options.High = 10,
    unknown: options.Unknown = "raise",
    unused: options.Unused = "raise",
    meta: options.Meta = False,
    export: Annotated[
        Literal["git-re-basin", "torch-pruning", "json"] | None,
        typer.Option(help="Print the permutations in the form that another tool takes."),
    ] = None,
    debug: Debug = False,
) -> None:
    """Explain the symmetries of a network: permutations of neurons, and scales of units."""
    with friendly_errors(debug=debug):
        network, example = named_network(target, arg, kwarg, input, high=high, meta=meta)
        graph = traced_on(Tracer(unknown=unknown, unused=unused), network, example, guessed=not input)
        if export is not None:
            typer.echo(exported(graph.symmetry, export))
            return
        typer.echo(f"{graph.name}: {graph.symmetry.explain()}\n\n{graph.scaling.explain()}")
