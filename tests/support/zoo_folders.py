"""Contents of zoo folders, and processes that are killed while they write to them."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path

from graph_metanetworks.zoo import build
from support.zoo_recipes import Regressors

COUNT, SHARD = 60, 8
make = partial(build, Regressors(), COUNT, workers=1, shard_size=SHARD, quiet=True)


def contents(folder: Path) -> dict[str, bytes]:
    """Return the files of a finished zoo, without the lock and the date."""
    files = {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.name != ".lock"}
    description = json.loads(files["zoo.json"])
    rest = {name: value for name, value in description.items() if name not in ("created", "checksum")}
    return files | {"zoo.json": json.dumps(rest).encode()}


def fork(work: Callable[[], object]) -> int:
    """Start a process that does the work and exits with 0, or with 1 after an error. Return its id."""
    child = os.fork()
    if child:
        return child
    try:
        work()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


def in_child(work: Callable[[], object], *, kill_after: float | None = None) -> int:
    """Do the work in another process, perhaps kill it, and return its exit code (negative for a signal)."""
    child = fork(work)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
