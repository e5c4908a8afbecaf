"""Memory of the C library that training keeps from step to step."""

from __future__ import annotations

import ctypes
from functools import cache

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # of mallopt, in the C library of GNU
LARGEST = 2**30


@cache
def keep_freed_memory() -> bool:
    """Ask the C library not to hand freed memory back at once; whether it could be asked.

    By default every large tensor is fresh memory from the operating system, which fills it with zeros page by
    page: a third to a half of the time of a training step, be it of a population or of a metanetwork.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another C library
        return False
    return bool(mallopt(MMAP_THRESHOLD, LARGEST)) and bool(mallopt(TRIM_THRESHOLD, LARGEST))
