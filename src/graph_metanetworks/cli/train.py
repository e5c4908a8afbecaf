"""`gmn train`: train metanetworks for a task."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

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
from graph_metanetworks.table import Table
from graph_metanetworks.tasks.defaults import BATCH_SIZE, PATIENCE, ROUNDS, STEPS

if TYPE_CHECKING:
    from graph_metanetworks.tasks.accuracy import LabelledZoo
    from graph_metanetworks.tasks.accuracy.run_folder import Run

app = typer.Typer(no_args_is_help=True, help="Train metanetworks.")


@app.callback()
def train() -> None:
    """Train metanetworks."""


@app.command()
def accuracy(
    zoo: Annotated[Path, typer.Argument(help="Folder of the zoo.")],
    out: Annotated[Path, typer.Option(file_okay=False, help="Folder of the run.")],
    model: Annotated[
        str, typer.Option(help="gmn, gmn-grit, statnn, statnn-boosting, dmc or deepsets.")
    ] = "gmn",
    size: Size = "small",
    setting: Annotated[
        str, typer.Option(help="Percentage of networks to train on; or ood, by hidden size.")
    ] = "80",
    label: Label = "test_accuracy",
    loss: Loss = "bce",
    learning_rate: Annotated[float | None, typer.Option(help="That of the model if not given.")] = None,
    tune: Annotated[
        bool, typer.Option("--tune", help="Try the paper's learning rates; take the best on validation.")
    ] = False,
    steps: Steps = STEPS,
    rounds: Rounds = ROUNDS,
    batch_size: BatchSize = BATCH_SIZE,
    patience: Patience = PATIENCE,
    seed: Annotated[int, typer.Option(help="Of the split, the weights and the order.")] = 0,
    devices: Annotated[int, typer.Option(min=1, help="Processes or GPUs of each machine.")] = 1,
    nodes: Annotated[int, typer.Option(min=1, help="Machines; start the command on each.")] = 1,
    accelerator: Annotated[str, typer.Option(help="cpu, gpu or auto.")] = "cpu",
    logger: Annotated[
        list[str] | None, typer.Option(help="csv, tensorboard or wandb; repeat. csv if not given.")
    ] = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Train a predictor of accuracy on a zoo. The same command goes on with a run that was stopped."""
    # Lightning takes seconds to import: only now, so that other commands stay quick
    from graph_metanetworks.tasks.accuracy import Machine, Options
    from graph_metanetworks.tasks.accuracy import train as train_once
    from graph_metanetworks.tasks.accuracy import tune as train_tuned
    from graph_metanetworks.training.processes import is_first_process

    with friendly_errors(debug=debug):
        options = Options(
            method=model,
            size=size,
            setting=setting,
            label=label,
            loss=loss,
            learning_rate=learning_rate,
            steps=steps,
            rounds=rounds,
            batch_size=batch_size,
            patience=patience,
            seed=seed,
        )
        machine = Machine(devices, nodes, accelerator, tuple(logger or ("csv",)), quiet)
        data = open_labelled(zoo, label, quiet=quiet)
        try:
            run = (train_tuned if tune else train_once)(data, out, options, machine)
        except KeyboardInterrupt:
            say(f"stopped; the same command goes on with {out}.", "yellow")
            raise typer.Exit(130) from None
        if is_first_process():
            typer.echo(scores_table(run, out))
            say(f"use it: gmn predict {out} CHECKPOINT --network my_model.py:build", "green")


def open_labelled(folder: Path, label: str, *, quiet: bool) -> LabelledZoo:
    """A zoo with its graphs and labels; says which networks are left out."""
    from graph_metanetworks.tasks.accuracy import LabelledZoo, TracedZoo
    from graph_metanetworks.zoo.zoo import Zoo

    data = LabelledZoo(TracedZoo(Zoo.open(folder), quiet=quiet), label)
    excluded = int((~data.usable).sum())
    if excluded:
        text = f"left out {excluded:,} of {len(data):,} networks: their weights are NaN or infinite."
        say(text, "yellow", err=True)
    return data


def scores_table(run: Run, out: Path) -> str:
    assert run.result is not None
    rows = [
        (part, f"{found['networks']:,}", f"{found['r2']:.3f}", f"{found['tau']:.3f}", f"{found['mae']:.3f}")
        for part, found in run.result["scores"].items()
    ]
    header = ("part", "networks", "R²", "tau", "mean error")
    count = run.result["parameters"]
    parameters = f"{count:,} parameters, " if count else ""  # trees have none
    title = f"{run.options['method']} in {out}: {parameters}{run.result['seconds']:.0f} s of training"
    return Table(title, header, rows, right=header[1:]).text()


def say(text: str, style: str, *, err: bool = False) -> None:
    Console(highlight=False, stderr=err).print(text, style=style, markup=False, soft_wrap=True)
