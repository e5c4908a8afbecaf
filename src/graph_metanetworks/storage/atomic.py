"""Atomic, durable writes: after a crash a file is either complete or absent."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from graph_metanetworks.errors import StorageError

TEMPORARY = ".tmp"  # suffix of a file while it is being written
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def write_durably(path: Path, content: bytes) -> None:
    """Write atomically: to a temporary file, which is synced and then renamed."""
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
            temporary.unlink(missing_ok=True)  # the partial file would keep the disk full
            raise


def append_durably(path: Path, line: bytes) -> None:
    """Append a line and sync. A torn last line is terminated first, so that the two stay separate."""
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
    """Turn an OSError into a StorageError that says what is safe and what to do."""
    try:
        yield
    except OSError as error:
        full = error.errno in FULL
        reason, remedy = ("the disk is full", "free some space") if full else (error.strerror, "fix that")
        raise StorageError(
            f"cannot write {path}: {reason}. Finished work is safe: {remedy}, then rerun the same command "
            "to resume."
        ) from error


def _last_byte(path: Path) -> bytes:
    with open(path, "rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1)
