"""Keep memory that the C library frees from one training step to the next."""

from __future__ import annotations

import ctypes
from functools import cache

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # options of mallopt in the GNU C library
LARGEST = 2**30


@cache
def keep_freed_memory() -> bool:
    """Ask the C library to keep freed memory; return whether it could be asked.

    By default every large tensor is fresh memory from the operating system, which zeroes it page by page. It
    takes half the time of a population's training step, and up to a third of a metanetwork's on a busy
    machine.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another C library
        return False
    return bool(mallopt(MMAP_THRESHOLD, LARGEST)) and bool(mallopt(TRIM_THRESHOLD, LARGEST))
