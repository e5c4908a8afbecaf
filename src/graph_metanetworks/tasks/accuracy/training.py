"""Train a predictor of accuracy into a run folder."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from math import inf, isnan
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from graph_metanetworks._version import __version__
from graph_metanetworks.allocator import keep_freed_memory
from graph_metanetworks.errors import Diverged, StateDictMismatch, TaskError
from graph_metanetworks.graph.batch import Batch
from graph_metanetworks.nn.baselines.boosting import BoostedStatNN
from graph_metanetworks.storage import checksum
from graph_metanetworks.storage.lock import locked
from graph_metanetworks.tasks.accuracy import intervals
from graph_metanetworks.tasks.accuracy.data import LabelledZoo
from graph_metanetworks.tasks.accuracy.methods import as_metanetwork, count_parameters, find_method
from graph_metanetworks.tasks.accuracy.novelty import Novelty
from graph_metanetworks.tasks.accuracy.options import Machine, Options
from graph_metanetworks.tasks.accuracy.predictor import accuracies_of
from graph_metanetworks.tasks.accuracy.run_folder import (
    LOCK,
    MODEL,
    PREDICTIONS,
    REFERENCE,
    RUN,
    TUNING,
    Run,
    claim,
    require_free,
    require_new,
    require_version,
)
from graph_metanetworks.tasks.accuracy.scores import scores
from graph_metanetworks.tasks.accuracy.splits import Setting, Split
from graph_metanetworks.tasks.accuracy.trainer import check_machine, fit_by_gradient
from graph_metanetworks.training.processes import barrier, is_first_process

TASK = "accuracy"
RATES = (1e-4, 5e-4, 1e-3, 5e-3, 1e-2)  # the paper's


def train(data: LabelledZoo, out: Path, options: Options, machine: Machine | None = None) -> Run:
    """Train into a new folder, or go on with an unfinished run that was started with the same options.

    A folder with a finished run, another run or anything else is refused, and nothing in it is changed.
    """
    keep_freed_memory()
    machine = machine or Machine()
    if find_method(options.method).by_gradient:
        check_machine(options, machine)
    split = Setting.parse(options.setting).split(data.networks.zoo.table, data.usable, options.seed)
    with ExitStack() as held:
        if is_first_process():
            held.enter_context(locked(out))
            require_new(claim(out, describe(data, options)), out)
        barrier()  # the others read what the first has claimed
        run = Run.load(out)
        try:
            model, seconds, curve = _fit(data, split, options, out, machine)
        except StateDictMismatch:  # nothing was trained: the folder is free for another method
            if is_first_process():
                (out / RUN).unlink()
            raise
        if not is_first_process():
            return run
        result = _finish(model, data, split, options, out)
        finished = replace(run, result={**result, "seconds": round(seconds, 2), **curve})
        finished.save(out)
    return finished


def train_or_load(data: LabelledZoo, out: Path, options: Options, machine: Machine | None = None) -> Run:
    """As `train`; a finished run of the same options is taken as it is. For programs of many runs."""
    asked = describe(data, options)
    if (out / RUN).exists():
        there = Run.load(out)
        if there.is_finished and there.version == asked.version and not there.differences(asked):
            return there
    return train(data, out, options, machine)


def tune(
    data: LabelledZoo,
    out: Path,
    options: Options,
    machine: Machine | None = None,
    *,
    rates: Sequence[float] = RATES,
) -> Run:
    """Train with each learning rate, in folders below `out`; the best by validation R² is copied."""
    if not find_method(options.method).by_gradient:
        raise TaskError(f"{options.method} has no learning rate to tune: train it without --tune.")
    if options.learning_rate is not None:
        raise TaskError(
            f"--tune tries learning rates of its own ({', '.join(map(str, rates))}): give either --tune or "
            f"--learning-rate {options.learning_rate:g}."
        )
    _require_untuned(out, describe(data, options).version)
    folders = [out / TUNING / f"learning-rate-{rate:g}" for rate in rates]
    for folder, rate in zip(folders, rates, strict=True):
        with suppress(Diverged):
            train_or_load(data, folder, replace(options, learning_rate=rate), machine)
    barrier()  # the others read what the first has measured
    runs = {folder: run for folder in folders if (run := Run.load(folder)).is_finished}
    if not runs:
        raise Diverged(f"training diverged with every learning rate: {', '.join(map(str, rates))}.")
    best = max(runs, key=lambda folder: validation_score(runs[folder]))
    if is_first_process():
        shutil.copytree(best, out, dirs_exist_ok=True, ignore=shutil.ignore_patterns(LOCK, RUN))
        runs[best].save(out)  # last: then the copy is whole
    return runs[best]


def _require_untuned(out: Path, version: str) -> None:
    if not (out / RUN).exists():
        return require_free(out, tuned=True)
    there = Run.load(out)
    require_version(there, out, version)
    require_new(there, out)
    raise TaskError(
        f"{out} holds an unfinished run without --tune: nothing was changed. Go on with it as it was "
        "started, or choose another folder with --out."
    )


def validation_score(run: Run) -> float:
    """Of a finished run; a score that is not a number is worse than any."""
    assert run.result is not None
    score = float(run.result["scores"]["validation"]["r2"])
    return -inf if isnan(score) else score


def describe(data: LabelledZoo, options: Options) -> Run:
    """What a run with these options on this zoo is, before it is trained."""
    zoo = data.networks.zoo
    indices = zoo.table["index"].to_numpy()
    known = {
        "folder": str(zoo.folder.resolve()),
        "recipe": zoo.description.recipe,
        "settings": zoo.description.settings,
        "seed": zoo.description.seed,
        "networks": len(zoo),
        "indices": checksum.of_bytes(np.ascontiguousarray(indices).tobytes()),
    }
    return Run(TASK, __version__, options.as_json(), known)


def _fit(
    data: LabelledZoo, split: Split, options: Options, out: Path, machine: Machine
) -> tuple[nn.Module, float, dict[str, Any]]:
    """A trained model, how many seconds it took, and what is known of the way."""
    method = find_method(options.method)
    torch.manual_seed(options.seed)
    model = method.make(options.size)
    as_metanetwork(model).fit(Networks(data, split.train, options.batch_size))
    _check_takes_all(model, data, split)
    if method.by_gradient:
        points = fit_by_gradient(model, data, split, options, out, machine)
        best = max(points, key=lambda point: point.val_r2)
        return model, points[-1].seconds, {"best_round": best.round, "rounds": len(points)}
    start = perf_counter()
    assert isinstance(model, BoostedStatNN)
    batches = Networks(data, split.train, options.batch_size)
    model.double()  # as predictors are: a number near a threshold is then on the same side of it
    features = torch.cat([model.statistics(batch.to(torch.float64)) for batch in batches])
    model.grow(features, torch.from_numpy(data.labels[split.train]), seed=options.seed)
    return model, perf_counter() - start, {}


@torch.no_grad()
def _check_takes_all(model: nn.Module, data: LabelledZoo, split: Split) -> None:
    """A method that cannot take some architecture says so now, not after training."""
    for positions in (split.validation, split.test):
        _, first = np.unique(data.networks.architectures[positions], return_index=True)
        for batch in Networks(data, positions[first], len(first)):
            model(batch)


@torch.no_grad()
def _finish(model: nn.Module, data: LabelledZoo, split: Split, options: Options, out: Path) -> dict[str, Any]:
    """Measure everything that is to be known of a trained model, and write it down."""
    size, exact = options.batch_size, deepcopy(model).double().eval()
    predicted = {part: predict_all(exact, data, own, size) for part, own in split.parts().items()}
    true = {part: torch.from_numpy(data.labels[own]) for part, own in split.parts().items()}
    novelty = fitted_novelty(data, split, predicted, size)
    calibration = intervals.residuals(predicted["validation"], true["validation"])
    save_file(_tensors(model), out / MODEL)
    save_file({"calibration": calibration, **_tensors(novelty, "novelty.")}, out / REFERENCE)
    _write_predictions(out / PREDICTIONS, data, split, predicted)
    return {
        "parameters": count_parameters(model),
        "excluded": int((~data.usable).sum()),
        "sizes": {part: len(own) for part, own in split.parts().items()},
        "scores": {part: asdict(scores(predicted[part], true[part])) for part in predicted},
        "scales": list(as_metanetwork(model).scales),
        "kinds": list(novelty.scales),
    }


def fitted_novelty(data: LabelledZoo, split: Split, predicted: Mapping[str, Tensor], size: int) -> Novelty:
    """What the training zoo is like, to tell other networks from it."""
    novelty = Novelty().double()
    train, validation = (Networks(data, part, size) for part in (split.train, split.validation))
    novelty.fit(train, validation)
    novelty.imprint.fit(train, predicted["train"], validation, predicted["validation"])
    return novelty


def predict_all(model: nn.Module, data: LabelledZoo, positions: np.ndarray, size: int) -> Tensor:  # [n]
    """Accuracies of networks of a zoo, as a predictor says them; `model` is in float64."""
    found = [accuracies_of(model, batch) for batch in Networks(data, positions, size)]
    return torch.cat(found or [torch.zeros(0)])


@dataclass(frozen=True, eq=False)
class Networks:
    """The networks at these positions in batches, as often as they are gone through."""

    data: LabelledZoo
    positions: np.ndarray
    size: int

    def __iter__(self) -> Iterator[Batch]:
        return (batch for batch, _ in self.data.in_batches(self.positions, self.size))


def _tensors(module: nn.Module, prefix: str = "") -> dict[str, Tensor]:
    return {prefix + name: value.clone().contiguous() for name, value in module.state_dict().items()}


def _write_predictions(path: Path, data: LabelledZoo, split: Split, predicted: dict[str, Tensor]) -> None:
    indices = data.networks.zoo.table["index"].to_numpy()
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("index", "part", "true", "predicted"))
        for part, positions in split.parts().items():
            for position, value in zip(positions, predicted[part].tolist(), strict=True):
                writer.writerow((indices[position], part, f"{data.labels[position]:.6f}", f"{value:.6f}"))
