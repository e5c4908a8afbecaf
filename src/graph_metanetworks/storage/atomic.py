"""Files that are there whole or not at all, whatever happens to the machine."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from graph_metanetworks.errors import StorageError

TEMPORARY = ".tmp"  # ends the name of a file in the making
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def write_durably(path: Path, content: bytes) -> None:
    """Write under a temporary name, sync, rename, sync the folder."""
    temporary = path.with_name(path.name + TEMPORARY)
    with disk_errors(path):
        try:
            with open(temporary, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
            sync_folder(path.parent)
        except OSError:
            temporary.unlink(missing_ok=True)  # what was written would keep the disk full
            raise


def append_durably(path: Path, line: bytes) -> None:
    """Append a line and sync; a line that was cut short before is closed first, and stays apart."""
    with disk_errors(path), open(path, "ab+") as file:
        size = file.seek(0, os.SEEK_END)
        torn = size > 0 and _last_byte(path) != b"\n"
        try:
            file.write(b"\n" + line + b"\n" if torn else line + b"\n")
            file.flush()
            os.fsync(file.fileno())
        except OSError:
            os.truncate(path, size)
            raise
    if size == 0:
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """A full disk as a message that says what is safe and what to do."""
    try:
        yield
    except OSError as error:
        full = error.errno in FULL
        reason, remedy = ("the disk is full", "make room") if full else (error.strerror, "put that right")
        raise StorageError(
            f"cannot write {path}: {reason}. What was finished is safe: {remedy}, then rerun the same "
            "command to resume."
        ) from error


def _last_byte(path: Path) -> bytes:
    with open(path, "rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1)
