"""A run folder: one trained model, and how it came about.

| file | content |
| --- | --- |
| `run.json` | format, version, task, options, zoo, state; when finished, the result |
| `model.safetensors` | the weights with the best validation score |
| `reference.safetensors` | reference data of the task, such as residuals for intervals |
| `predictions.csv` | targets and predictions for every network of the zoo |
| `curve.csv` | loss and scores after each round |
| `checkpoints/`, `logs/` | checkpoints to resume from; output of the loggers |
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from math import isnan
from pathlib import Path
from typing import Any

from graph_metanetworks._version import __version__
from graph_metanetworks.errors import TaskError
from graph_metanetworks.storage.atomic import write_durably

FORMAT = 1
RUN, MODEL, REFERENCE = "run.json", "model.safetensors", "reference.safetensors"
PREDICTIONS, CURVE, CHECKPOINTS, LOGS, TUNING = (
    "predictions.csv",
    "curve.csv",
    "checkpoints",
    "logs",
    "tuning",
)
LOCK = ".lock"


@dataclass(frozen=True, repr=False)
class Run:
    """The content of run.json."""

    task: str
    version: str
    options: dict[str, Any]
    zoo: dict[str, Any]
    result: dict[str, Any] | None = None  # None: not finished
    format: int = FORMAT

    @property
    def is_finished(self) -> bool:
        return self.result is not None

    @property
    def scores(self) -> dict[str, dict[str, float]]:
        """Scores of a finished run by part, such as `run.scores["test"]["r2"]`."""
        if self.result is None:
            raise TaskError("the run is not finished, so it has no scores. Rerun the same command to resume.")
        return self.result["scores"]

    def save(self, folder: Path) -> None:
        write_durably(folder / RUN, json.dumps(asdict(self), indent=2).encode() + b"\n")

    @classmethod
    def load(cls, folder: Path) -> Run:
        path = folder / RUN
        if not path.is_file():
            raise TaskError(f"there is no run in {folder}: {RUN} is missing. gmn train makes one.")
        try:
            content = json.loads(path.read_text())
            found = content["format"]
        except (ValueError, KeyError, TypeError) as error:
            raise TaskError(f"{path} is damaged: {error}. Train again in another folder.") from error
        if found != FORMAT:
            made = content.get("version", "unknown")
            raise TaskError(
                f"{folder} is a run of format {found}, made by version {made}, and this version reads format "
                f"{FORMAT}. Use that version, or train again in another folder."
            )
        try:
            return cls(**content)
        except TypeError as error:
            raise TaskError(f"{path} is damaged: {error}. Train again in another folder.") from error

    def differences(self, other: Run) -> list[str]:
        """List the options in which two runs differ."""
        found = [] if self.task == other.task else [f"task: {self.task!r}, not {other.task!r}"]
        for part in ("options", "zoo"):
            ours, theirs = getattr(self, part), getattr(other, part)
            found += [
                f"{name}: {ours.get(name)!r}, not {theirs.get(name)!r}"
                for name in sorted(ours.keys() | theirs.keys())
                if ours.get(name) != theirs.get(name)
            ]
        return found

    def __repr__(self) -> str:
        method, zoo = self.options.get("method"), self.zoo.get("folder")
        if self.result is None:
            return f"Run({self.task}, {method} on {zoo}, not finished)"
        scores = [item for item in self.result["scores"]["test"].items() if not isnan(item[1])]
        test = ", ".join(f"{name} {v:.3f}" if isinstance(v, float) else f"{name} {v}" for name, v in scores)
        return f"Run({self.task}, {method} on {zoo}, test: {test})"


def claim(folder: Path, asked: Run) -> Run:
    """Return the run in a folder: a new one, or an unfinished one that the same command started."""
    if not (folder / RUN).exists():
        require_free(folder)
        asked.save(folder)
        return asked
    there = Run.load(folder)
    require_version(there, folder, asked.version)
    differences = there.differences(asked)
    if differences:
        raise TaskError(
            f"{folder} holds another run: {'; '.join(differences)}. Nothing was changed. Choose another "
            "folder with --out, or repeat the command that started it."
        )
    return there


def require_free(folder: Path, *, tuned: bool = False) -> None:
    """Refuse a folder that holds no run but other files: they may be a user's, whatever their names.

    With `tuned`, a run that was tuned there may be half copied; its files are copied again.
    """
    copied = (MODEL, REFERENCE, PREDICTIONS, CURVE, CHECKPOINTS, LOGS)
    ours = [LOCK, TUNING] if tuned else [LOCK]
    if tuned and any((folder / TUNING).glob(f"*/{RUN}")):
        ours += copied
    others = sorted(path.name for path in folder.glob("*") if path.name not in ours)
    if others:
        raise TaskError(
            f"{folder} is not empty and holds no run ({', '.join(others[:3])}): nothing was changed. Choose "
            "another folder with --out."
        )


def require_version(run: Run, folder: Path, version: str = __version__) -> None:
    """Require the version that started the run."""
    if run.version != version:
        raise TaskError(
            f"{folder} holds a run of version {run.version} of graph_metanetworks, and this is version "
            f"{version}: nothing was changed. Choose another folder with --out, or install version "
            f"{run.version} to resume it."
        )


def require_compatible(run: Run, folder: Path) -> None:
    """Refuse a run whose version differs in more than its last number: it may compute otherwise."""
    if run.version.split(".")[:2] != __version__.split(".")[:2]:
        raise TaskError(
            f"the run in {folder} was made by version {run.version} of graph_metanetworks, and this is "
            f"version {__version__}: train again in another folder, or install version {run.version}."
        )


def require_new(run: Run, folder: Path) -> None:
    """Refuse a finished run: it is never trained again in place."""
    if run.is_finished:
        raise TaskError(
            f"{folder} holds a finished run of the same options: nothing was changed. Use it with gmn "
            f"predict {folder} ..., or choose another folder with --out."
        )
