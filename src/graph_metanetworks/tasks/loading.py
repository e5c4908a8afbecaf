"""Load a finished run."""

from __future__ import annotations

from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file

from graph_metanetworks.errors import TaskError
from graph_metanetworks.methods.method import Output
from graph_metanetworks.tasks.registry import make_task
from graph_metanetworks.tasks.runner import Runner
from graph_metanetworks.training.run_folder import MODEL, REFERENCE, Run, require_compatible

ACCURACY = {"width": 1, "level": "graph", "link": "logit"}  # of runs that do not say what they put out


def load(folder: str | Path) -> Runner:
    """Load a run that `gmn.train` or `gmn train` made.

    >>> predictor = gmn.load("runs/gmn")                      # doctest: +SKIP
    >>> predictor(model, torch.zeros(1, 3, 32, 32))           # doctest: +SKIP
    [Prediction(name='Cnn', accuracy=0.93, low=0.9, high=0.96, warning='')]
    """
    folder = Path(folder)
    run = Run.load(folder)
    require_compatible(run, folder)
    if run.result is None:
        raise TaskError(f"the run in {folder} is not finished: repeat the gmn train command that started it.")
    try:
        weights, reference = load_file(folder / MODEL), load_file(folder / REFERENCE)
    except (OSError, SafetensorError) as error:
        raise TaskError(f"the run in {folder} is damaged: {error}. Train again in another folder.") from error
    task = make_task(run.task, run.options)
    model = task.make_model(Output(**run.result.get("output", ACCURACY)))
    try:
        model.double().load_state_dict(weights)
        return task.runner_class.of(run, task, model.eval(), reference)
    except RuntimeError as error:
        raise TaskError(
            f"the weights in {folder} do not fit {run.options['method']}, size {run.options['size']}, of "
            f"this version; they were made by version {run.version}. Train again. ({error})"
        ) from error
