"""A lock on a folder, so that only one process at a time writes to it."""

from __future__ import annotations

import fcntl
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from io import FileIO
from pathlib import Path

from graph_metanetworks.errors import StorageError
from graph_metanetworks.storage.atomic import disk_errors

NAME = ".lock"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Create the folder and lock it, or raise an error that names the holder.

    The operating system releases the lock of a process that dies.
    """
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / NAME).touch()
    with open(folder / NAME, "ab+", buffering=0) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StorageError(
                f"{folder} is in use by {_holder(file)}. Wait for it, or stop it and rerun the "
                "same command to resume."
            ) from None
        with suppress(OSError):  # on a full disk the lock is held, but not signed
            _sign(file)
        try:
            yield
        finally:
            file.truncate(0)


def _sign(file: FileIO) -> None:
    since = datetime.now().astimezone().isoformat(timespec="seconds")
    file.truncate(0)
    signature = {"process": os.getpid(), "host": socket.gethostname(), "since": since}
    file.write(json.dumps(signature).encode())


def _holder(file: FileIO) -> str:
    file.seek(0)
    try:
        holder = json.load(file)
    except ValueError:  # the holder has not signed yet
        return "another process"
    return f"process {holder['process']} on {holder['host']}, since {holder['since']}"
