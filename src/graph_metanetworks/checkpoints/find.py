"""Find the checkpoints in a folder."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

from graph_metanetworks.checkpoints.formats import is_checkpoint_name
from graph_metanetworks.checkpoints.huggingface import INDEX, is_model_folder


def find_checkpoints(folder: Path, *, skip: Callable[[Path], bool] = lambda folder: False) -> list[Path]:
    """Return checkpoints in a folder and the folders in it, sorted.

    A folder of Hugging Face is one checkpoint, and so are files with an index. Hidden files and folders are
    left alone.

    Args:
        skip: whether to leave out a folder, such as a zoo.
    """
    found: list[Path] = []
    for place, folders, files in os.walk(folder):
        here = Path(place)
        if skip(here) or is_model_folder(here):
            folders.clear()
            found += [] if skip(here) else [here]
            continue
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += _in_one(here, [name for name in files if not name.startswith(".")])
    return sorted(found)


def _in_one(folder: Path, names: list[str]) -> list[Path]:
    indices = [name for name in names if name.endswith(INDEX)]
    shards = {shard for name in indices for shard in _shards(folder / name)}
    files = [name for name in names if is_checkpoint_name(name) and name not in shards]
    return [folder / name for name in (*indices, *files)]


def _shards(index: Path) -> set[str]:
    try:
        return set(json.loads(index.read_text())["weight_map"].values())
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return set()  # what is wrong with it is said when it is read
