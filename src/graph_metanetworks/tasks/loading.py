"""Load a finished run."""

from __future__ import annotations

from pathlib import Path

import torch

from graph_metanetworks.errors import StorageError, TaskError, WeightsError
from graph_metanetworks.methods.method import Output
from graph_metanetworks.methods.registry import is_built_in
from graph_metanetworks.nn.fitted import set_fitted_names
from graph_metanetworks.nn.weights import load_weights
from graph_metanetworks.storage.hub import download, is_repository
from graph_metanetworks.tasks.registry import TASKS, make_task
from graph_metanetworks.tasks.runner import Runner
from graph_metanetworks.training.run_folder import (
    CURVE,
    MODEL,
    PREDICTIONS,
    REFERENCE,
    RUN,
    Run,
    require_compatible,
)

ACCURACY = {"width": 1, "level": "graph", "link": "logit"}  # the output of runs that do not state theirs


def load(folder: str | Path, *, device: str | torch.device = "cpu") -> Runner:
    """Load a run that `gmn.train` or `gmn train` made.

    >>> predictor = gmn.load("runs/gmn")                      # doctest: +SKIP
    >>> predictor(model, torch.zeros(1, 3, 32, 32))           # doctest: +SKIP
    [Prediction(name='Cnn', accuracy=0.93, low=0.9, high=0.96, warning='')]

    Args:
        folder: that of the run, or a repository of the Hugging Face hub, `user/name`.
        device: where the model runs; networks are moved there, and results are moved back.
    """
    folder = _find(folder)
    run = Run.load(folder)
    require_compatible(run, folder)
    if run.result is None:
        raise TaskError(f"the run in {folder} is not finished: repeat the gmn train command that started it.")
    task = make_task(run.task, run.options)
    model = task.make_model(Output(**run.result.get("output", ACCURACY)))
    reference = task.make_reference()
    for module, key in ((model, "scales"), (reference, "kinds")):
        if key in run.result:  # earlier runs keep the names of fitted tables here, not in the weights
            set_fitted_names(module, run.result[key])
    try:
        load_weights(model, folder / MODEL)
        load_weights(reference, folder / REFERENCE)
    except WeightsError as error:
        raise TaskError(
            f"the run in {folder} is damaged, or was made by another version ({run.version}): {error} Train "
            "again in another folder."
        ) from error
    return task.runner_class(run, task, model.to(device).double().eval(), reference.double(), folder)


def _find(name: str | Path) -> Path:
    """Return the folder of a run; download it if this names a repository of the hub."""
    if Path(name).exists() or not is_repository(name):
        return Path(name)
    try:
        folder = download(str(name), files=(RUN, MODEL, REFERENCE, PREDICTIONS, CURVE))
    except StorageError as error:
        raise TaskError(f"there is no folder {name}, and it is no run of the hub: {error}") from error
    run = Run.load(folder)
    method = str(run.options.get("method"))
    own = [
        code for code, known in ((run.task, run.task in TASKS), (method, is_built_in(method))) if not known
    ]
    if own:
        raise TaskError(
            f"the run {name} needs code of its author, {', '.join(map(str, own))}, which is not loaded from "
            f"the hub. If you have it and trust it, load the folder: gmn.load(Path({str(folder)!r}))."
        )
    return folder
