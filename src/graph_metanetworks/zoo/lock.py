"""One process at a time builds in a folder."""

from __future__ import annotations

import fcntl
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import IO

from graph_metanetworks.errors import ZooError

NAME = ".lock"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder, or say who does. The system lets go of the lock of a process that died."""
    with open(folder / NAME, "a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ZooError(
                f"{folder} is being built by {_holder(file)}. Wait for it, or stop it and go on from there."
            ) from None
        _sign(file)
        try:
            yield
        finally:
            file.truncate(0)


def _sign(file: IO[str]) -> None:
    since = datetime.now().astimezone().isoformat(timespec="seconds")
    file.truncate(0)
    json.dump({"process": os.getpid(), "host": socket.gethostname(), "since": since}, file)
    file.flush()


def _holder(file: IO[str]) -> str:
    file.seek(0)
    try:
        holder = json.load(file)
    except ValueError:  # it has the lock, and has not signed yet
        return "another process"
    return f"process {holder['process']} on {holder['host']}, since {holder['since']}"
