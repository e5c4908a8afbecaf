"""What the C library does with freed memory: keep it for the next training step, or return it."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # options of mallopt in the GNU C library
LARGEST = 2**30
USUAL = 2**25  # what the C library's own threshold grows to
SMALL = 2**20
_current = USUAL  # tensors above it are memory of their own, returned when they are freed


def keep_freed_memory() -> bool:
    """Ask the C library to keep freed memory; return whether it could be asked.

    By default every large tensor is fresh memory from the operating system, which zeroes it page by page. It
    takes half the time of a population's training step, and up to a third of a metanetwork's on a busy
    machine.
    """
    return _set_threshold(LARGEST)


@contextmanager
def freed_memory_returned() -> Iterator[None]:
    """Return the memory of freed tensors to the operating system at once, also of those below 32 MB.

    Otherwise they leave holes, as large as all tensors that are alive where these have many sizes.
    """
    before = _current
    _set_threshold(SMALL)
    try:
        yield
    finally:
        _set_threshold(before)


def _set_threshold(size: int) -> bool:
    global _current
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another C library
        return False
    _current = size
    return bool(mallopt(MMAP_THRESHOLD, size)) and bool(mallopt(TRIM_THRESHOLD, size))
