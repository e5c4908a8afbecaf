"""Networks found at paths: checkpoints, folders of them, zoos."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from graph_metanetworks.checkpoints.find import find_checkpoints
from graph_metanetworks.checkpoints.formats import SUFFIXES
from graph_metanetworks.checkpoints.huggingface import is_model_folder
from graph_metanetworks.errors import TaskError
from graph_metanetworks.zoo.description import NAME as ZOO_FILE


@dataclass(frozen=True)
class Candidates:
    """Zoos and checkpoints."""

    zoos: tuple[Path, ...]
    checkpoints: tuple[Path, ...]

    @classmethod
    def find(cls, paths: Sequence[Path]) -> Candidates:
        zoos, checkpoints = zip(*map(_inside, paths), strict=True)
        return cls(tuple(dict.fromkeys(chain(*zoos))), tuple(dict.fromkeys(chain(*checkpoints))))


def _inside(path: Path) -> tuple[list[Path], list[Path]]:
    """Find the zoos and the checkpoints at a path. Files of a zoo are no checkpoints."""
    if path.is_file() or is_model_folder(path):
        return [], [path]
    if not path.exists():
        raise TaskError(f"there is no file or folder '{path}'.")
    zoos = sorted(file.parent for file in path.rglob(ZOO_FILE))
    checkpoints = find_checkpoints(path, skip=lambda folder: folder in zoos)
    if not zoos and not checkpoints:
        raise TaskError(f"the folder {path} has no checkpoints ({', '.join(SUFFIXES)}), and it is no zoo.")
    return zoos, checkpoints
