"""Products of node states with weights, along edges and against them.

Letters as in `matrices`, and `P` planes, the matrices that a panel has; `d` is the width of states. Each
weight is read once for both directions. `streamed` reads a few rows at a time, so its memory is that of the
states, also in the backward pass, which reads the weights again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

PIECE = 1 << 18  # weights that are read at once: they stay in cache


def planes(values: Tensor, patterns: Tensor | None, dtype: torch.dtype) -> list[Tensor]:
    """Return matrices `[G, T, S]`: sums over taps, sums of squares, sums weighted by patterns.

    Each comes once for each channel. Shapes: [G, T, S, K, C], [K, R]
    """
    *shape, taps, _ = values.shape
    channels = values.to(dtype).unbind(-1)  # [G, T, S, K] each
    if taps == 1:
        plain = [channel.squeeze(3) for channel in channels]
        return plain + [own * own for own in plain]
    found = [channel.sum(3) for channel in channels] + [channel.square().sum(3) for channel in channels]
    if patterns is not None:
        weighted = (torch.mm(patterns.t(), own.reshape(-1, taps).t()) for own in channels)
        found += [plane.view(shape) for own in weighted for plane in own]
    return found


def multiply(matrices: Sequence[Tensor], along: Tensor, against: Tensor) -> tuple[Tensor, Tensor]:
    """Return the messages to targets and to sources.

    Shapes: [G, S, P, d], [G, T, P, d] -> [G, T, d], [G, S, d]
    """
    to_target = torch.bmm(matrices[0], along[:, :, 0])
    to_source = torch.bmm(matrices[0].mT, against[:, :, 0])
    for number, plane in enumerate(matrices[1:], 1):
        to_target = torch.baddbmm(to_target, plane, along[:, :, number])
        to_source = torch.baddbmm(to_source, plane.mT, against[:, :, number])
    return to_target, to_source


def spread_sums(along: Tensor, against: Tensor, taps: int) -> tuple[Tensor, Tensor]:
    """Do the same for structural edges, whose weights are 1. Shapes: [G, S, 1, d], [G, T, 1, d]"""
    to_target, to_source = (taps * states.sum((1, 2))[:, None] for states in (along, against))
    return to_target.expand(-1, against.shape[1], -1), to_source.expand(-1, along.shape[1], -1)


def streamed(
    values: Tensor, patterns: Tensor | None, along: Tensor, against: Tensor
) -> tuple[Tensor, Tensor]:
    """Multiply a few rows at a time, and again in the backward pass."""
    return _Streamed.apply(values, patterns, along, against)


class _Streamed(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, values: Tensor, patterns: Tensor | None, along: Tensor, against: Tensor
    ) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(values, patterns, along, against)
        to_target = torch.empty_like(against[:, :, 0])
        to_source = torch.zeros_like(along[:, :, 0])
        for which, rows in pieces(values.shape[:4], PIECE):
            matrices = planes(values[which, rows], patterns, along.dtype)
            to_target[which, rows], own = multiply(matrices, along[which], against[which, rows])
            to_source[which] += own
        return to_target, to_source

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        to_target, to_source = grads
        given = ctx.saved_tensors
        sums = [torch.zeros_like(t) if n else None for n, t in zip(ctx.needs_input_grad, given, strict=True)]
        for which, rows in pieces(given[0].shape[:4], PIECE):
            places = ((which, rows), ..., which, (which, rows))
            own = [None if t is None else t[place].detach() for t, place in zip(given, places, strict=True)]
            wanted = [number for number, total in enumerate(sums) if total is not None]
            with torch.enable_grad():
                leaves = [own[number].requires_grad_() for number in wanted]  # type: ignore[union-attr]
                values, patterns, along, against = own
                done = multiply(planes(values, patterns, along.dtype), along, against)  # type: ignore[arg-type, union-attr]
            found = torch.autograd.grad(done, leaves, (to_target[which, rows], to_source[which]))
            for number, part in zip(wanted, found, strict=True):
                sums[number][places[number]] += part  # type: ignore[index]
        return tuple(sums)


def pieces(shape: Sequence[int], limit: int) -> Iterator[tuple[slice, slice]]:
    """Cut a panel `[G, T, S, K]` into pieces of at most `limit` weights, or of one row.

    They are some rows of one matrix, or all rows of some matrices.
    """
    count, rows, columns, taps = shape
    step = max(1, limit // max(1, columns * taps))
    together = max(1, step // max(1, rows))
    for first in range(0, count, together):
        for row in range(0, rows, step):
            yield slice(first, first + together), slice(row, row + step)
