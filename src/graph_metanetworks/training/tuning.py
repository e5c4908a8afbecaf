"""Tuning: train with each learning rate, and keep the run that validates best."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import inf, isnan
from pathlib import Path

from graph_metanetworks.errors import Diverged, TaskError
from graph_metanetworks.training.objective import Score
from graph_metanetworks.training.processes import barrier, is_first_process
from graph_metanetworks.training.run_folder import (
    LOCK,
    RUN,
    TUNING,
    Run,
    require_free,
    require_new,
    require_version,
)

RATES = (1e-4, 5e-4, 1e-3, 5e-3, 1e-2)  # the paper's


def tune_rate(
    out: Path, score: Score, train: Callable[[Path, float], Run], rates: Sequence[float] = RATES
) -> Run:
    """Train with each learning rate in folders below `out`, and copy the best run there.

    Args:
        train: trains in a folder with a learning rate; a finished run is taken as it is.
    """
    _require_untuned(out)
    folders = [out / TUNING / f"learning-rate-{rate:g}" for rate in rates]
    for folder, rate in zip(folders, rates, strict=True):
        with suppress(Diverged):
            train(folder, rate)
    barrier()  # the others read what the first has measured
    runs = {folder: run for folder in folders if (run := Run.load(folder)).is_finished}
    if not runs:
        raise Diverged(f"training diverged with every learning rate: {', '.join(map(str, rates))}.")
    best = max(runs, key=lambda folder: validation_score(runs[folder], score))
    if is_first_process():
        shutil.copytree(best, out, dirs_exist_ok=True, ignore=shutil.ignore_patterns(LOCK, RUN))
        runs[best].save(out)  # last: then the copy is whole
    return runs[best]


def validation_score(run: Run, score: Score) -> float:
    """Return a number that is larger for better runs; NaN counts as worst."""
    value = score.better(float(run.scores["validation"][score.name]))
    return -inf if isnan(value) else value


def _require_untuned(out: Path) -> None:
    if not (out / RUN).exists():
        return require_free(out, tuned=True)
    there = Run.load(out)
    require_version(there, out)
    require_new(there, out)
    raise TaskError(
        f"{out} holds an unfinished run without --tune: nothing was changed. Resume it as it was started, or "
        "choose another folder with --out."
    )
