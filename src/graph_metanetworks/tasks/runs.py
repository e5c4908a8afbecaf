"""Train a method for a task into a run folder."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from io import StringIO
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np
import torch
from torch import nn

from graph_metanetworks._version import __version__
from graph_metanetworks.allocator import keep_freed_memory
from graph_metanetworks.errors import TaskError, UnsupportedNetwork
from graph_metanetworks.methods.method import Output, as_metanetwork, count_parameters
from graph_metanetworks.nn.weights import save_weights
from graph_metanetworks.storage import checksum
from graph_metanetworks.storage.atomic import write_durably
from graph_metanetworks.storage.lock import locked
from graph_metanetworks.tasks.data import TaskData
from graph_metanetworks.tasks.task import Task
from graph_metanetworks.training.job import Networks, Split, TrainingJob
from graph_metanetworks.training.options import Machine
from graph_metanetworks.training.processes import barrier, is_first_process
from graph_metanetworks.training.run_folder import (
    LOCK,
    MODEL,
    PREDICTIONS,
    REFERENCE,
    RUN,
    Run,
    claim,
    require_new,
)
from graph_metanetworks.training.tuning import RATES, tune_rate


def train(task: Task[Any], data: TaskData, out: Path, machine: Machine | None = None) -> Run:
    """Train into a new folder, or resume an unfinished run that was started with the same options.

    A folder with a finished run, another run or anything else is refused, and nothing in it is changed.
    """
    keep_freed_memory()
    machine, options = machine or Machine(), task.options
    options.found_method.strategy.check(options, machine)
    split = task.split(data, options.setting, options.seed)
    with ExitStack() as held:
        if is_first_process():
            held.enter_context(locked(out))
            require_new(claim(out, describe(task, data)), out)
        barrier()  # the others read what the first has claimed
        run = Run.load(out)
        try:
            model, output = prepare(task, data, split)
        except (UnsupportedNetwork, TaskError):
            if is_first_process():
                _vacate(out)
            raise
        job = TrainingJob(options.method, model, task, data, split, options, out, machine)
        facts = options.found_method.strategy.train(job)
        if not is_first_process():
            return run
        result = finish(task, model, data, split, out)
        finished = replace(run, result={"output": asdict(output), **result, **facts})
        finished.save(out)
    return finished


def _vacate(out: Path) -> None:
    """Free a folder in which nothing was trained, and remove it if nothing else is in it."""
    (out / RUN).unlink()
    if [path.name for path in out.iterdir()] == [LOCK]:
        rmtree(out)


def train_or_load(task: Task[Any], data: TaskData, out: Path, machine: Machine | None = None) -> Run:
    """Train, or take a finished run of the same options as it is. For programs with many runs."""
    asked = describe(task, data)
    if (out / RUN).exists():
        there = Run.load(out)
        if there.is_finished and there.version == asked.version and not there.differences(asked):
            return there
    return train(task, data, out, machine)


def tune(
    task: Task[Any],
    data: TaskData,
    out: Path,
    machine: Machine | None = None,
    *,
    rates: Sequence[float] = RATES,
) -> Run:
    """Train with each learning rate, in folders below `out`; the best on validation networks is copied."""
    options = task.options
    if not options.found_method.by_gradient:
        raise TaskError(f"{options.method} has no learning rate to tune: train it without --tune.")
    if options.learning_rate is not None:
        raise TaskError(
            f"--tune tries learning rates of its own ({', '.join(map(str, rates))}): give either --tune or "
            f"--learning-rate {options.learning_rate:g}."
        )

    def train_with(folder: Path, rate: float) -> Run:
        return train_or_load(task.with_options(learning_rate=rate), data, folder, machine)

    return tune_rate(out, task.selection, train_with, rates)


def describe(task: Task[Any], data: TaskData) -> Run:
    """Describe a run of this task on this zoo before it is trained."""
    zoo = data.networks.zoo
    indices = zoo.table["index"].to_numpy()
    known = {
        "folder": str(zoo.folder.resolve()),
        "recipe": zoo.description.recipe,
        "settings": zoo.description.options,
        "seed": zoo.description.seed,
        "networks": len(zoo),
        "indices": checksum.of_bytes(np.ascontiguousarray(indices).tobytes()),
    }
    return Run(task.reference, __version__, task.options.as_json(), known)


def prepare(task: Task[Any], data: TaskData, split: Split) -> tuple[nn.Module, Output]:
    """Make a model, fit it to the scales of the training networks, and check that it takes all networks."""
    torch.manual_seed(task.options.seed)
    model, output = make_model(task, data)
    as_metanetwork(model).fit(Networks(data, split.train, task.options.batch_size))
    check_takes_all(model, data, split)
    return model, output


def make_model(task: Task[Any], data: TaskData) -> tuple[nn.Module, Output]:
    """Make the untrained model of a task; a method that cannot do the task is a TaskError."""
    networks = data.networks
    output = replace(task.output(data), input_shape=networks.input_shape, input_range=networks.input_range)
    return task.make_model(output), output


@torch.no_grad()
def check_takes_all(model: nn.Module, data: TaskData, split: Split) -> None:
    """Run one network of each architecture: a method that cannot take one says so before training."""
    model.eval()  # batch norms learn from training networks only
    for positions in (split.validation, split.test):
        _, first = np.unique(data.networks.architectures[positions], return_index=True)
        for batch in Networks(data, positions[first], len(first)):
            model(batch)
    model.train()


@torch.no_grad()
def finish(task: Task[Any], model: nn.Module, data: TaskData, split: Split, out: Path) -> dict[str, Any]:
    """Evaluate a trained model, and write weights, reference and predictions."""
    found = task.evaluate(model, data, split)
    save_weights(model, out / MODEL)
    save_weights(found.reference, out / REFERENCE)
    write_durably(out / PREDICTIONS, _as_csv(found.rows).encode())
    return {
        "parameters": count_parameters(model),
        "excluded": data.num_unusable,
        "sizes": {part: len(own) for part, own in split.parts().items()},
        "scores": {part: dict(own) for part, own in found.scores.items()},
    }


def _as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    text = StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else ["index"])
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
