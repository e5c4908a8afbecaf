"""`gmn.train`: train a method for a task on a zoo, in one call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from graph_metanetworks.errors import TaskError
from graph_metanetworks.lookup import absolute
from graph_metanetworks.tasks import runs
from graph_metanetworks.tasks.data import TaskData
from graph_metanetworks.tasks.registry import make_task
from graph_metanetworks.tasks.task import Task
from graph_metanetworks.tasks.traced_zoo import TracedZoo
from graph_metanetworks.training.options import Machine
from graph_metanetworks.training.run_folder import Run
from graph_metanetworks.zoo.zoo import Zoo


def train(
    task: str | type[Task[Any]],
    zoo: str | Path | Zoo | TracedZoo | TaskData,
    *,
    out: str | Path,
    method: str = "gmn",
    tune: bool = False,
    quiet: bool = False,
    **options: Any,
) -> Run:
    """Train a method for a task on a zoo; `gmn.load(out)` then gives a runner.

    >>> run = gmn.train("accuracy", "zoos/diverse", out="runs/gmn", method="gmn")     # doctest: +SKIP
    >>> run.scores["test"]["r2"]                                                      # doctest: +SKIP
    0.95

    A run that was interrupted is resumed by the same call; a finished one is an error.

    Args:
        task: "accuracy", `my_tasks.py:Class`, or a subclass of `Task`.
        zoo: a `Zoo`, or its folder.
        out: folder of the run.
        method: a method by name, or `my_methods.py:NAME`.
        tune: try several learning rates, and keep the best on validation networks.
        quiet: hide progress.
        options: of the task and of training, such as `setting="50"`, `steps=2000`, `seed=1`; and of the
            machine: `devices`, `nodes`, `accelerator`, `loggers`.
    """
    hardware = {name: options.pop(name) for name in Machine.__dataclass_fields__ if name in options}
    chosen = make_task(task, {"method": absolute(method), **options})
    data = zoo if isinstance(zoo, TaskData) else chosen.data(open_traced(zoo, quiet=quiet))
    run_or_tune = runs.tune if tune else runs.train
    return run_or_tune(chosen, data, Path(out), Machine(**hardware, quiet=quiet))


def open_traced(zoo: str | Path | Zoo | TracedZoo, *, quiet: bool) -> TracedZoo:
    """Open a zoo if need be, and trace its architectures."""
    if isinstance(zoo, str | Path):
        zoo = Zoo.open(zoo)
    if isinstance(zoo, Zoo):
        zoo = TracedZoo(zoo, quiet=quiet)
    if not isinstance(zoo, TracedZoo):
        raise TaskError(
            f"cannot train on an object of type {type(zoo).__name__}: pass a zoo, gmn.Zoo.open(folder), or "
            "its folder."
        )
    return zoo
