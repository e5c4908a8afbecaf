"""`gmn experiment`: the paper's tables."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from graph_metanetworks.cli.accuracy_options import (
    BatchSize,
    Debug,
    Label,
    Loss,
    Patience,
    Quiet,
    Rounds,
    Size,
    Steps,
)
from graph_metanetworks.cli.friendly import friendly_errors
from graph_metanetworks.cli.train import open_labelled, say
from graph_metanetworks.tasks.defaults import BATCH_SIZE, PATIENCE, ROUNDS, STEPS

app = typer.Typer(no_args_is_help=True, help="Reproduce the paper's experiments.")


@app.callback()
def experiment() -> None:
    """Reproduce the paper's experiments."""


@app.command()
def accuracy(
    zoo: Annotated[Path, typer.Option(help="Folder of the zoo.")],
    out: Annotated[Path, typer.Option(file_okay=False, help="Folder of the experiment.")] = Path(
        "experiments/accuracy"
    ),
    methods: Annotated[
        str, typer.Option(help="Of gmn, gmn-grit, statnn, statnn-boosting, dmc, deepsets; by commas.")
    ] = "gmn,dmc,deepsets,statnn,statnn-boosting",
    settings: Annotated[str, typer.Option(help="Percentages to train on, and ood; by commas.")] = "50,5,ood",
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each method in each setting.")] = 5,
    tune: Annotated[
        bool, typer.Option("--tune", help="Choose learning rates on validation, as the paper does.")
    ] = False,
    size: Size = "small",
    label: Label = "test_accuracy",
    loss: Loss = "bce",
    steps: Steps = STEPS,
    rounds: Rounds = ROUNDS,
    batch_size: BatchSize = BATCH_SIZE,
    patience: Patience = PATIENCE,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Predict accuracy with every method in every setting: a table and a report.

    The same command goes on with an experiment that was stopped; more seeds add to it.
    """
    # Lightning takes seconds to import: only now, so that other commands stay quick
    from graph_metanetworks.experiments.accuracy import Plan, Results, run_cells, write_report
    from graph_metanetworks.tasks.accuracy import Machine, Options

    with friendly_errors(debug=debug):
        plan = Plan(
            methods=tuple(methods.split(",")),
            settings=tuple(settings.split(",")),
            seeds=seeds,
            tuned=tune,
            options=Options(
                size=size,
                label=label,
                loss=loss,
                steps=steps,
                rounds=rounds,
                batch_size=batch_size,
                patience=patience,
            ),
        )
        data = open_labelled(zoo, label, quiet=quiet)
        out.mkdir(parents=True, exist_ok=True)
        try:
            results = Results(plan, out, run_cells(data, plan, out, Machine(quiet=quiet)))
        except KeyboardInterrupt:
            say(f"stopped; the same command goes on with {out}.", "yellow")
            raise typer.Exit(130) from None
        results.write()
        typer.echo(results.table().text())
        for where, why in results.refusals().items():
            say(f"{where}: no result. {why}", "yellow")
        report = write_report(results, data, command=shlex.join(["gmn", *sys.argv[1:]]))
        say(f"the report: {report.resolve()}", "green")
