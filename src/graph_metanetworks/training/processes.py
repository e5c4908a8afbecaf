"""Processes that train together: which one is first, how they wait for each other and how they part."""

from __future__ import annotations

import atexit
import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch.distributed as distributed
from torch.nn.parallel import DistributedDataParallel

if distributed.is_available():
    # Its functions take the current process group as a default argument, when they are imported. DDP imports
    # them with a group at hand, and `destroy_process_group` then leaves a group that lives until the
    # interpreter is torn down. Imported before there is a group, they keep none alive.
    import torch.distributed.nn  # noqa: F401

RANKS = ("RANK", "SLURM_PROCID", "LOCAL_RANK", "NODE_RANK")


def is_first_process() -> bool:
    """Return whether this process owns the run folder. Lightning starts the others with their rank."""
    return all(int(os.environ.get(name, 0)) == 0 for name in RANKS)


def barrier() -> None:
    """Wait for the other processes. Return at once outside a process group."""
    if _in_group():
        distributed.barrier()


@contextmanager
def process_group(init_method: str, rank: int, size: int) -> Iterator[None]:
    """Join a gloo process group, and leave it safely: together with the others, or alone after an error."""
    distributed.init_process_group("gloo", init_method=init_method, rank=rank, world_size=size)
    try:
        yield
        barrier()
    finally:
        leave_group()


def leave_group_at_exit() -> None:
    """Leave the process group that Lightning is about to join when the interpreter exits.

    Not earlier: trainings that follow each other in one program share the group. An exit after an error or
    Ctrl-C counts, too. A group that exists already was made by the caller, who also destroys it.
    """
    if not _in_group():
        atexit.unregister(leave_group)
        atexit.register(leave_group)


def leave_group() -> None:
    """Destroy the process group, if there is one, in an order that cannot deadlock.

    The destructor of `ProcessGroupGloo` joins its threads. One of them may just be freeing a finished
    all-reduce, for which it needs the GIL. Python's reference to the group releases the GIL before it runs
    the destructor; the C++ reducer of `DistributedDataParallel` does not, and hangs if its reference is the
    last one. In a finalizing interpreter the thread cannot get the GIL at all, and aborts the process.

    So drop the reducers first, even if a cycle or the traceback of an error still holds their modules, and
    the group last, while the interpreter is alive.
    """
    if not _in_group():
        return
    for found in gc.get_objects():
        if issubclass(type(found), DistributedDataParallel):
            found.logger = found.reducer = found.process_group = None  # the logger holds the reducer, too
    distributed.destroy_process_group()


def _in_group() -> bool:
    return distributed.is_available() and distributed.is_initialized()
