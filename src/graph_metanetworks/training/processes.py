"""Processes that train together: which is the first, and how they keep in step."""

from __future__ import annotations

import os

import torch.distributed as distributed

RANKS = ("RANK", "SLURM_PROCID", "LOCAL_RANK", "NODE_RANK")


def is_first_process() -> bool:
    """Whether this is the process that keeps the run folder; Lightning starts the others with their rank."""
    return all(int(os.environ.get(name, 0)) == 0 for name in RANKS)


def in_step() -> None:
    """Wait for the other processes; before Lightning has joined them there is nothing to wait for."""
    if distributed.is_available() and distributed.is_initialized():
        distributed.barrier()
