"""`gmn prune`: remove units of a network, prove the result, save it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, cast

import typer

from graph_metanetworks.checkpoints.networks import trace_on
from graph_metanetworks.cli import options
from graph_metanetworks.cli.friendly import Debug, friendly_errors
from graph_metanetworks.cli.named import Saved, named_network
from graph_metanetworks.errors import PruneError
from graph_metanetworks.prune.api import Pruning
from graph_metanetworks.prune.api import prune as carry_out
from graph_metanetworks.prune.folder import save_pruned
from graph_metanetworks.prune.plan import prune_plan
from graph_metanetworks.trace.tracer import Tracer


def prune(
    target: options.Target = None,
    arg: options.Args = None,
    kwarg: options.Kwargs = None,
    input: options.Inputs = None,
    high: options.High = 10,
    checkpoint: options.Checkpoint = None,
    key: options.Key = None,
    ignore_extra: options.IgnoreExtra = False,
    amount: Annotated[float, typer.Option(help="Share to remove.")] = 0.5,
    of: Annotated[
        Literal["units", "parameters", "operations"], typer.Option(help="What the amount is a share of.")
    ] = "units",
    importance: Annotated[
        Literal["magnitude", "l1", "batch-norm", "random"], typer.Option(help="How units are ranked.")
    ] = "magnitude",
    scope: Annotated[
        Literal["factor", "global"], typer.Option(help="Rank units within a factor, or all together.")
    ] = "factor",
    minimum: Annotated[int, typer.Option(min=1, help="Units that every factor keeps.")] = 1,
    multiple_of: Annotated[int, typer.Option(min=1, help="Round sizes up to a multiple.")] = 1,
    exclude: Annotated[
        list[str] | None, typer.Option(help="Pattern of factors, modules or parameters to keep; repeat.")
    ] = None,
    coupled: Annotated[
        bool, typer.Option("--coupled/--no-coupled", help="Prune factors that a norm couples.")
    ] = True,
    form: Annotated[
        Literal["auto", "module", "program"], typer.Option(help="A resized module, or a rebuilt program.")
    ] = "auto",
    unknown: options.Unknown = "raise",
    unused: options.Unused = "raise",
    meta: options.Meta = False,
    out: Annotated[Path | None, typer.Option(file_okay=False, help="Folder to save the result to.")] = None,
    debug: Debug = False,
) -> None:
    """Prune a network along its symmetries, and prove the result. Without --out, only plan."""
    with friendly_errors(debug=debug):
        if meta and (checkpoint or out):
            raise PruneError("--meta plans without weights, so it takes neither --checkpoint nor --out.")
        saved = Saved(checkpoint, key, ignore_extra)
        named = named_network(target, arg, kwarg, input, high=high, meta=meta, saved=saved)
        network, example = named.network.eval(), named.example
        graph = trace_on(Tracer(unknown=unknown, unused=unused), named.network, named.example)
        plan = prune_plan(
            graph,
            network,
            amount,
            importance,
            scope=scope,
            target=of,
            minimum=minimum,
            multiple_of=multiple_of,
            exclude=exclude or (),
            coupled=coupled,
        )
        typer.echo(str(plan))
        if out is None:
            return
        small = carry_out(network, plan, *example.args, form=form, **example.kwargs)
        save_pruned(small, out)
        pruning = cast(Pruning, small.pruning)
        what = "a module of the same class" if pruning.form == "module" else f"a program: {pruning.reason}"
        if pruning.fixed_batch:
            what += f"\nbatches have the size of the example's: {pruning.fixed_batch}"
        typer.echo(f"result: {what}\nproved: {pruning.proof}\nsaved to {out}")
