"""A limit on what tracing writes out, so that a network for which it would need too much ends in an error.

Labels are small where nodes are the same at every position. Where they are not (attention on tokens that a
linear layer made), each pair of positions and each channel has a node, and the network itself has no tensor
of that size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from math import prod

from graph_metanetworks.errors import TooLarge

ENTRIES = 2**24  # some steps need 250 bytes for each
TIMES_LARGEST = 2  # elements of parameters are listed where strides do not describe them
OUT_OF_MEMORY = ("can't allocate memory", "not enough memory", "bad_alloc")  # in messages of PyTorch

_limit = ContextVar("limit", default=ENTRIES)


class TooManyEntries(Exception):
    """A label would have more entries than the limit. `too_large` adds where, and what to do."""


@contextmanager
def size_limit(largest: int) -> Iterator[None]:
    """Limit the entries of labels, for a network whose largest parameter has the given number of elements."""
    before = _limit.set(max(ENTRIES, TIMES_LARGEST * largest))
    try:
        yield
    finally:
        _limit.reset(before)


def check_size(shape: Sequence[int]) -> None:
    """Raise an error if a tensor of this shape would exceed the limit."""
    if prod(shape) > _limit.get():
        raise TooManyEntries(f"{prod(shape):,} entries, and at most {_limit.get():,} are allowed")


def is_too_large(error: Exception) -> bool:
    """Return whether the limit was exceeded, or the memory of this machine."""
    named = any(text in str(error) for text in OUT_OF_MEMORY)
    return named or isinstance(error, TooManyEntries | MemoryError)


def too_large(what: str, error: Exception) -> TooLarge:
    """Return the error that says where this happened, and what to do."""
    count = str(error) if isinstance(error, TooManyEntries) else "more entries than fit into memory"
    return TooLarge(
        f"tracing {what} needs a table of which node stands where, with {count}. Pass a smaller example (a "
        "batch of one, a shorter sequence, a smaller image): most graphs do not depend on its size. Or "
        "describe the module as a whole with gmn.declare."
    )
