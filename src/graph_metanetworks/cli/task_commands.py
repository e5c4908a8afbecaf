"""Commands that are made for a task when it is asked for: `gmn train TASK`, `gmn experiment TASK`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from graph_metanetworks.cli.friendly import friendly_errors
from graph_metanetworks.console import say
from graph_metanetworks.tasks.api import open_traced
from graph_metanetworks.tasks.data import TaskData
from graph_metanetworks.tasks.registry import TASKS, task_class
from graph_metanetworks.tasks.task import Task

MakeCommand = Callable[[str, type[Task[Any]]], Callable[..., None]]


def task_group(help: str, make: MakeCommand) -> type[TyperGroup]:
    """Make a group whose commands are the tasks, the user's own as `my_tasks.py:Class` among them.

    Args:
        make: makes the function of a command from the name and the class of a task.
    """

    class TaskGroup(TyperGroup):
        def list_commands(self, ctx: Any) -> list[str]:
            return list(TASKS)

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            with friendly_errors(debug=False):
                kind = task_class(cmd_name)
            single = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
            single.command(cmd_name)(make(cmd_name, kind))
            command = typer.main.get_command(single)
            command.name = cmd_name
            return command

    return TaskGroup


def open_data(task: Task[Any], zoo: Path, *, quiet: bool) -> TaskData:
    """Open a zoo for a task, and say which networks are left out."""
    data = task.data(open_traced(zoo, quiet=quiet))
    if data.num_unusable:
        counted = f"{data.num_unusable:,} of {len(data):,} networks"
        say(f"left out {counted}: their weights are NaN or infinite.", "yellow", err=True)
    return data
