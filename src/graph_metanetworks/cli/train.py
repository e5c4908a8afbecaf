"""`gmn train`: train a method for a task."""

from __future__ import annotations

from collections.abc import Callable
from math import isnan
from pathlib import Path
from typing import Annotated, Any

import typer

from graph_metanetworks.cli.derived_options import values_of, with_options
from graph_metanetworks.cli.friendly import Debug, friendly_errors, resumable
from graph_metanetworks.cli.task_commands import open_data, task_group
from graph_metanetworks.console import say
from graph_metanetworks.lookup import absolute
from graph_metanetworks.table import Table
from graph_metanetworks.tasks.registry import make_task
from graph_metanetworks.tasks.runs import train as train_once
from graph_metanetworks.tasks.runs import tune as train_tuned
from graph_metanetworks.tasks.task import Task
from graph_metanetworks.training.options import Machine
from graph_metanetworks.training.processes import is_first_process
from graph_metanetworks.training.run_folder import Run


def _command(reference: str, kind: type[Task[Any]]) -> Callable[..., None]:
    @with_options(kind.options_class, Machine, quiet=False)
    def train(
        zoo: Annotated[Path, typer.Argument(help="Folder of the zoo.")],
        out: Annotated[Path, typer.Option(file_okay=False, help="Folder of the run.")],
        tune: Annotated[
            bool, typer.Option("--tune", help="Try the paper's learning rates; keep the best on validation.")
        ] = False,
        debug: Debug = False,
        **values: Any,
    ) -> None:
        with friendly_errors(debug=debug), resumable(out):
            values["method"] = absolute(values["method"])
            task = make_task(reference, values_of(kind.options_class, values))
            machine = Machine(**values_of(Machine, values))
            data = open_data(task, zoo, quiet=machine.quiet)
            run = (train_tuned if tune else train_once)(task, data, out, machine)
            if is_first_process():
                typer.echo(scores_table(task, run, out).text())
                say(f"use it: {task.runner_class.usage.format(run=out)}", "green")

    train.__doc__ = f"{kind.title}: train a method on a zoo. Rerun the same command to resume."
    return train


HELP = "Train a method for a task: TASK is a name, or my_tasks.py:Class."
app = typer.Typer(no_args_is_help=True, help=HELP, cls=task_group(HELP, _command))


@app.callback()
def train() -> None:
    """Train a method for a task: TASK is a name, or my_tasks.py:Class."""


def scores_table(task: Task[Any], run: Run, out: Path) -> Table:
    assert run.result is not None
    sizes, count = run.result["sizes"], run.result["parameters"]
    # a supervised run has no views, so nothing is retrieved
    scores = [own for own in task.scores if not all(isnan(found[own.name]) for found in run.scores.values())]
    rows = [
        (part, f"{sizes[part]:,}", *(f"{found[score.name]:.{score.digits}f}" for score in scores))
        for part, found in run.scores.items()
    ]
    header = ("part", "networks", *(score.title for score in scores))
    parameters = f"{count:,} parameters, " if count else ""  # trees have none
    title = f"{run.options['method']} in {out}: {parameters}{run.result['seconds']:.0f} s of training"
    return Table(title, header, rows, right=header[1:])
