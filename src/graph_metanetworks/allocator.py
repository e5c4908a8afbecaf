"""Memory of the C library that training keeps from step to step."""

from __future__ import annotations

import ctypes
from functools import cache

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # of mallopt, in the C library of GNU
LARGEST = 2**30


@cache
def keep_freed_memory() -> bool:
    """Ask the C library to keep freed memory; return whether it could be asked.

    By default every large tensor is fresh memory from the operating system, which fills it with zeros page by
    page: half of the time of a step of a population, and up to a third of one of a metanetwork on a busy
    machine.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another C library
        return False
    return bool(mallopt(MMAP_THRESHOLD, LARGEST)) and bool(mallopt(TRIM_THRESHOLD, LARGEST))
