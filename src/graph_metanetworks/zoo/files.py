"""The file names of a zoo, by which its own files are told apart from the user's."""

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
    """Return the number of the shard that a file belongs to, if any.

    >>> shard_of("table-00012.parquet"), shard_of("table.parquet")
    (12, None)
    """
    found = SHARD.fullmatch(name)
    return int(found[1] or found[2]) if found else None


def remove_temporaries(folder: Path) -> None:
    """Remove temporary files of interrupted writes, but no file of the user."""
    for path in folder.iterdir():
        if _is_temporary(path.name):
            path.unlink()


def refuse_foreign(folder: Path) -> None:
    """Raise an error if the folder has files but no zoo.json."""
    if not folder.is_dir():
        return
    with disk_errors(folder):
        # a build that was killed early leaves its lock and a temporary file
        names = sorted(p.name for p in folder.iterdir() if p.name != LOCK and not _is_temporary(p.name))
    if not names or (folder / DESCRIPTION).exists():
        return
    if any(name == MANIFEST or shard_of(name) is not None for name in names):
        raise ZooError(
            f"{folder} has shards of a zoo, but {DESCRIPTION} is missing: restore it, or build in "
            "another folder."
        )
    raise ZooError(
        f"{folder} is not empty and not a zoo: it has {names[0]}"
        + (f" and {len(names) - 1:,} more" if names[1:] else "")
        + f", but no {DESCRIPTION}. Nothing was changed. Build in a new or empty folder."
    )


def _is_temporary(name: str) -> bool:
    ours = name.removesuffix(TEMPORARY)
    return ours != name and (ours in (DESCRIPTION, MANIFEST) or shard_of(ours) is not None)
