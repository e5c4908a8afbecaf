"""The files of a zoo by name: which of a folder are ours."""

from __future__ import annotations

import re
from pathlib import Path

from graph_metanetworks.errors import ZooError
from graph_metanetworks.storage.atomic import TEMPORARY, disk_errors
from graph_metanetworks.storage.lock import NAME as LOCK
from graph_metanetworks.zoo.description import NAME as DESCRIPTION
from graph_metanetworks.zoo.manifest import NAME as MANIFEST

SHARD = re.compile(r"weights-(\d{5,})\.safetensors|table-(\d{5,})\.parquet")


def shard_of(name: str) -> int | None:
    """The number of the shard that a file belongs to.

    >>> shard_of("table-00012.parquet"), shard_of("table.parquet")
    (12, None)
    """
    found = SHARD.fullmatch(name)
    return int(found[1] or found[2]) if found else None


def remove_temporaries(folder: Path) -> None:
    """Remove what an interrupted write left behind, and nothing of the user's."""
    for path in folder.iterdir():
        if _is_temporary(path.name):
            path.unlink()


def refuse_foreign(folder: Path) -> None:
    """A folder with files but without zoo.json is not ours to write to."""
    if not folder.is_dir():
        return
    with disk_errors(folder):
        # a build that was killed at its first moment leaves its lock and a temporary file
        there = sorted(p.name for p in folder.iterdir() if p.name != LOCK and not _is_temporary(p.name))
    if not there or (folder / DESCRIPTION).exists():
        return
    if any(name == MANIFEST or shard_of(name) is not None for name in there):
        raise ZooError(
            f"{folder} has shards of a zoo, but {DESCRIPTION} is missing: restore it, or build elsewhere."
        )
    raise ZooError(
        f"{folder} is not empty and no zoo: it has {there[0]}"
        + (f" and {len(there) - 1:,} more" if there[1:] else "")
        + f", but no {DESCRIPTION}. Nothing was changed; build in a new or an empty folder."
    )


def _is_temporary(name: str) -> bool:
    ours = name.removesuffix(TEMPORARY)
    return ours != name and (ours in (DESCRIPTION, MANIFEST) or shard_of(ours) is not None)
