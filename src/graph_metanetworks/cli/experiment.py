"""`gmn experiment`: methods against settings and seeds, with a table and a report."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from graph_metanetworks.cli.derived_options import values_of, with_options
from graph_metanetworks.cli.friendly import Debug, friendly_errors, resumable
from graph_metanetworks.cli.task_commands import open_data, task_group
from graph_metanetworks.console import say
from graph_metanetworks.extras import optional_imports
from graph_metanetworks.lookup import absolute
from graph_metanetworks.methods.registry import METHOD_HELP
from graph_metanetworks.tasks.registry import make_task
from graph_metanetworks.tasks.task import Task
from graph_metanetworks.training.options import Machine


def _command(reference: str, kind: type[Task[Any]]) -> Callable[..., None]:
    @with_options(kind.options_class, method=..., setting=..., seed=...)
    def experiment(
        zoo: Annotated[Path, typer.Option(help="Folder of the zoo.")],
        out: Annotated[Path | None, typer.Option(file_okay=False, help="Folder of the experiment.")] = None,
        methods: Annotated[str, typer.Option(help=f"Separated by commas. Of {METHOD_HELP}.")] = ",".join(
            kind.methods
        ),
        settings: Annotated[
            str | None,
            typer.Option(
                help="Percentages to train on, and ood; separated by commas. By default those of the task "
                "that the zoo allows."
            ),
        ] = None,
        seeds: Annotated[int, typer.Option(min=1, help="Runs of each method in each setting.")] = 5,
        tune: Annotated[
            bool, typer.Option("--tune", help="Choose learning rates on validation, as the paper does.")
        ] = False,
        quiet: Annotated[bool, typer.Option("--quiet", help="Hide progress.")] = False,
        debug: Debug = False,
        **values: Any,
    ) -> None:
        folder = out or Path("experiments") / kind.name
        with friendly_errors(debug=debug), resumable(folder):
            with optional_imports():  # it imports matplotlib
                from graph_metanetworks.experiments import (
                    Grid,
                    Results,
                    allowed_settings,
                    run_grid,
                    write_report,
                )
            grid = Grid(
                make_task(reference, values_of(kind.options_class, values)),
                methods=tuple(map(absolute, methods.split(","))),
                settings=tuple(settings.split(",")) if settings else (),
                seeds=seeds,
                tuned=tune,
            )
            data = open_data(grid.task, zoo, quiet=quiet)
            if settings is None:
                allowed, refused = allowed_settings(grid, data)
                grid = replace(grid, settings=allowed)
                for reason in refused:
                    say(f"left out: {reason}", "yellow")
            folder.mkdir(parents=True, exist_ok=True)
            results = Results(grid, folder, run_grid(data, grid, folder, Machine(quiet=quiet)))
            results.write()
            typer.echo(results.table().text())
            for where, why in results.refusals().items():
                say(f"{where}: no result. {why}", "yellow")
            report = write_report(results, data, command=shlex.join(["gmn", *sys.argv[1:]]))
            say(f"the report: {report.resolve()}", "green")

    experiment.__doc__ = (
        f"{kind.title}: compare methods in several settings, with a table and a report.\n\n"
        "Rerun the same command to resume; more seeds add to an experiment."
    )
    return experiment


HELP = "Compare methods on a task: TASK is a name, or my_tasks.py:Class."
app = typer.Typer(no_args_is_help=True, help=HELP, cls=task_group(HELP, _command))


@app.callback()
def experiment() -> None:
    """Compare methods on a task: TASK is a name, or my_tasks.py:Class."""
