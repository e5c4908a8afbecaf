"""Tasks by name: the built-in ones, and those of users as `file.py:Class` or `package.module:Class`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graph_metanetworks.errors import TaskError
from graph_metanetworks.lookup import UnknownTarget, absolute, find_object, reference_to
from graph_metanetworks.tasks.task import Task

TASKS = {
    "accuracy": "graph_metanetworks.tasks.accuracy.task:Accuracy",
    "classification": "graph_metanetworks.tasks.classification:Classification",
}


def task_class(reference: str) -> type[Task[Any]]:
    """Return the class of a task by its name, or by `file.py:Class` for one of your own."""
    if reference not in TASKS and ":" not in reference:
        raise TaskError(
            f"there is no task '{reference}'; choose from {', '.join(TASKS)}, or name your own as "
            "my_tasks.py:Class."
        )
    try:
        found = find_object(TASKS.get(reference, reference))
    except UnknownTarget as error:
        raise TaskError(f"the task {reference} cannot be imported: {error}") from error
    if not (isinstance(found, type) and issubclass(found, Task)):
        raise TaskError(f"{reference} is no task: it must be a subclass of graph_metanetworks.tasks.Task.")
    return found


def make_task(task: str | type[Task[Any]], options: Mapping[str, Any]) -> Task[Any]:
    """Make a task from its name or class, and its options."""
    kind = task_class(task) if isinstance(task, str) else task
    reference = absolute(task) if isinstance(task, str) else _reference(task)
    known = kind.options_class.__dataclass_fields__
    unknown = sorted(options.keys() - known.keys())
    if unknown:
        raise TaskError(
            f"{kind.name} has no option {', '.join(unknown)}; its options are {', '.join(known)}."
        )
    return kind(kind.options_class(**options), reference=reference)


def _reference(kind: type[Task[Any]]) -> str:
    place = reference_to(kind)
    return next((name for name, target in TASKS.items() if target == place), place)
