"""Scratch buffers reused from piece to piece: fresh memory is cold, and costs more than most operations."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor


class Scratch(threading.local):
    """Named buffers, one set per thread. A buffer grows to the largest piece that asks for it."""

    def __init__(self) -> None:
        self.buffers: dict[str, Tensor] = {}
        self.shaped: dict[
            tuple, Tensor
        ] = {}  # views of buffers: making one takes as long as a small operation

    @contextmanager
    def used(self) -> Iterator[None]:
        """Serve `scratch_buffer` inside this context; a buffer is valid until the next piece."""
        _current.scratch = self
        try:
            yield
        finally:
            _current.scratch = None

    def buffer(self, name: str, like: Tensor, width: int) -> Tensor:
        key = (name, like.shape, width, like.dtype, like.device)
        if key not in self.shaped:
            self.shaped[key] = self._make(name, like, width)
        return self.shaped[key]

    def _make(self, name: str, like: Tensor, width: int) -> Tensor:
        size = like.shape[:-1].numel() * width
        buffer = self.buffers.get(name, like.new_empty(0))
        if buffer.numel() < size or (buffer.dtype, buffer.device) != (like.dtype, like.device):
            buffer = self.buffers[name] = like.new_empty(size)
            self.shaped = {key: view for key, view in self.shaped.items() if key[0] != name}
        return buffer[:size].view(*like.shape[:-1], width)


class _Current(threading.local):
    scratch: Scratch | None = None


_current = _Current()


def scratch_buffer(name: str, like: Tensor, width: int) -> Tensor | None:
    """Return a buffer for a result `[*piece, width]`, to pass as `out=`; None if torch must allocate one.

    It must wherever gradients are recorded: nothing may be overwritten there.
    """
    return None if _current.scratch is None else _current.scratch.buffer(name, like, width)
