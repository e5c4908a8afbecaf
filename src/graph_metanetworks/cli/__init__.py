"""The command line, `gmn`. Each command is a typed function in a file of its own."""

from __future__ import annotations

from typing import Annotated

import typer

from graph_metanetworks._version import __version__
from graph_metanetworks.cli.edit import edit
from graph_metanetworks.cli.embed import embed
from graph_metanetworks.cli.experiment import app as experiment
from graph_metanetworks.cli.predict import predict
from graph_metanetworks.cli.prune import prune
from graph_metanetworks.cli.search import search
from graph_metanetworks.cli.symmetry import symmetry
from graph_metanetworks.cli.trace import trace
from graph_metanetworks.cli.train import app as train
from graph_metanetworks.cli.verify import verify
from graph_metanetworks.cli.zoo import app as zoo

__all__ = ["app", "main"]

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
app.command()(trace)
app.command()(predict)
app.command()(embed)
app.command()(edit)
app.command()(search)
app.add_typer(zoo, name="zoo")
app.command()(verify)
app.command()(symmetry)
app.command()(prune)
app.add_typer(train, name="train")
app.add_typer(experiment, name="experiment")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"gmn {__version__}")
        raise typer.Exit


@app.callback()
def gmn(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Neural networks as graphs: trace any PyTorch network into its parameter graph."""


def main() -> None:
    app()
