"""A run folder: one trained predictor, and how it came about.

| file | content |
| --- | --- |
| `run.json` | format, version, options, zoo, state; when finished, the result |
| `model.safetensors` | the weights with the best validation score |
| `reference.safetensors` | what intervals and warnings are measured by |
| `predictions.csv` | true and predicted accuracy of every network of the zoo |
| `curve.csv` | scores round by round |
| `checkpoints/`, `logs/` | to go on from; what loggers wrote |
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from graph_metanetworks.errors import TaskError

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


@dataclass(frozen=True)
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

    def save(self, folder: Path) -> None:
        write_whole(folder / RUN, json.dumps(asdict(self), indent=2) + "\n")

    @classmethod
    def load(cls, folder: Path) -> Run:
        path = folder / RUN
        if not path.is_file():
            raise TaskError(f"there is no run in {folder}: {RUN} is missing. gmn train makes one.")
        try:
            content = json.loads(path.read_text())
            found = content["format"]
        except (ValueError, KeyError, TypeError) as error:
            raise TaskError(f"{path} is damaged: {error}. Train anew in another folder.") from error
        if found != FORMAT:
            made = content.get("version", "unknown")
            raise TaskError(
                f"{folder} is a run of format {found}, made by version {made}, and this version reads format "
                f"{FORMAT}. Use that version, or train anew in another folder."
            )
        try:
            return cls(**content)
        except TypeError as error:
            raise TaskError(f"{path} is damaged: {error}. Train anew in another folder.") from error

    def differences(self, other: Run) -> list[str]:
        """In what another command would make another run."""
        found = []
        for part in ("options", "zoo"):
            ours, theirs = getattr(self, part), getattr(other, part)
            found += [
                f"{name}: {ours.get(name)!r}, not {theirs.get(name)!r}"
                for name in sorted(ours.keys() | theirs.keys())
                if ours.get(name) != theirs.get(name)
            ]
        return found


def claim(folder: Path, asked: Run) -> Run:
    """The run in a folder: a new one, or an unfinished one that the same command started. Else an error."""
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
    """A folder that holds no run must hold nothing else either: names as ours may be a user's files.

    When rates were tuned there, a run may be half copied: its files are copied again.
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


def require_version(run: Run, folder: Path, version: str) -> None:
    """A run is gone on with by the version that started it."""
    if run.version != version:
        raise TaskError(
            f"{folder} holds a run of version {run.version} of graph_metanetworks, and this is version "
            f"{version}: nothing was changed. Choose another folder with --out, or install version "
            f"{run.version} to go on with it."
        )


def require_new(run: Run, folder: Path) -> None:
    """A finished run is never trained again in place."""
    if run.is_finished:
        raise TaskError(
            f"{folder} holds a finished run of the same options: nothing was changed. Use it with gmn "
            f"predict {folder} ..., or choose another folder with --out."
        )


def write_whole(path: Path, text: str) -> None:
    """A file that is there whole or not at all."""
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(text)
    os.replace(temporary, path)
