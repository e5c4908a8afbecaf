"""Products of node states with weights, along edges and against them.

Letters as in `matrices`, and `P` planes, the matrices that a panel has; `d` is the width of states. Each
weight is read once for both directions. `streamed` reads a few rows at a time, shared out to workers, so its
memory is that of the states, also in the backward pass, which reads the weights again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor

from graph_metanetworks.nn.engine.sweep import Executor

PIECE = 1 << 18  # weights that are read at once: they stay in cache


def planes(values: Tensor, patterns: Tensor | None, dtype: torch.dtype, room: Tensor | None = None) -> Tensor:
    """Return sums over taps, sums of squares and sums weighted by patterns, each once for each channel.

    Shapes: [G, T, S, K, C], [K, R] -> [G, T, P, S]. Without taps the result is in `room`, if there is any.
    """
    *shape, taps, count = values.shape
    if taps == 1 and not values.requires_grad:
        size = (*shape[:2], 2 * count, shape[2])
        found = values.new_empty(size, dtype=dtype) if room is None else room[: prod(size)].view(size)
        plain, squares = found.split(count, dim=2)
        plain.copy_(values.squeeze(3).mT)
        torch.mul(plain, plain, out=squares)
        return found
    channels = values.to(dtype).unbind(-1)  # [G, T, S, K] each
    if taps == 1:
        found = [channel.squeeze(3) for channel in channels]
        return torch.stack(found + [own * own for own in found], dim=2)
    flat = [channel.reshape(-1, taps) for channel in channels]
    ones = flat[0].new_ones(taps)
    # a product with few columns is several times as fast as a sum over few numbers
    found = [torch.mv(own, ones) for own in flat] + [torch.mv(own * own, ones) for own in flat]
    if patterns is not None:
        found += [torch.mv(own, pattern) for own in flat for pattern in patterns.unbind(1)]
    return torch.stack([plane.view(shape) for plane in found], dim=2)


def multiply(matrices: Tensor, states: Tensor, sent: Tensor) -> tuple[Tensor, Tensor]:
    """Return the sums of states at the targets, plane by plane, and of what was sent at the sources.

    Shapes: [G, T, P, S], [G, S, d], [G, T, P, d] -> [G, T, P, d], [G, S, d]
    """
    flat = matrices.flatten(1, 2)  # one product for all planes
    return torch.bmm(flat, states).view(sent.shape), torch.bmm(flat.mT, sent.flatten(1, 2))


def spread_sums(states: Tensor, sent: Tensor, taps: int) -> tuple[Tensor, Tensor]:
    """Do the same for structural edges, whose weights are 1. Shapes: [G, S, d], [G, T, 1, d]"""
    to_target, to_source = (taps * own.sum(1) for own in (states, sent.squeeze(2)))
    return to_target[:, None, None].expand(sent.shape), to_source[:, None].expand(states.shape)


def streamed(
    values: Tensor, patterns: Tensor | None, states: Tensor, sent: Tensor, executor: Executor
) -> tuple[Tensor, Tensor]:
    """Multiply a few rows at a time, and again in the backward pass, in the precision of `states`."""
    with torch.autocast(states.device.type, enabled=False):
        return _Streamed.apply(values, patterns, states, sent.to(states.dtype), executor)


def _multiply_pieces(
    values: Tensor, patterns: Tensor | None, states: Tensor, sent: Tensor, executor: Executor
) -> tuple[Tensor, Tensor]:
    to_target = torch.empty_like(sent, memory_format=torch.contiguous_format)
    states, sent = states.contiguous(), sent.contiguous()  # gradients may be expanded

    def work(share: Iterable[Any]) -> list[Tensor | None]:
        to_source, room = torch.zeros_like(states), None
        with torch.no_grad():  # the mode is of each thread
            for which, rows in share:
                piece = values[which, rows]
                if room is None or room.numel() < 2 * piece.numel():
                    room = states.new_empty(2 * piece.numel())
                flat = planes(piece, patterns, states.dtype, room).flatten(1, 2)
                sums = torch.bmm(flat, states[which])
                to_target[which, rows] = sums.view(*sums.shape[:1], -1, *sent.shape[2:])
                to_source[which].baddbmm_(flat.mT, sent[which, rows].flatten(1, 2))
        return [to_source]

    found = executor(work, list(pieces(values.shape[:4], PIECE)), writes=True)  # type: ignore[arg-type]
    first, *others = (to_source for sums in found for to_source in sums if to_source is not None)
    for other in others:
        first += other
    return to_target, first


class _Streamed(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, values: Tensor, patterns: Tensor | None, states: Tensor, sent: Tensor, executor: Executor
    ) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(values, patterns, states, sent)
        ctx.executor = executor
        return _multiply_pieces(values.detach(), patterns, states, sent, executor)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        values, patterns, *_ = ctx.saved_tensors
        to_target, to_source = grads
        if any(ctx.needs_input_grad[:2]):
            return *_gradients(ctx, to_target, to_source), None
        # the products are linear in states, and the transpose of both together exchanges their roles
        to_sent, to_states = _multiply_pieces(values, patterns, to_source, to_target, ctx.executor)
        return None, None, to_states, to_sent, None


def _gradients(ctx: Any, to_target: Tensor, to_source: Tensor) -> list[Tensor | None]:
    """Return gradients of everything that needs one, weights and patterns too, by autograd on each piece."""
    given = ctx.saved_tensors
    needed = zip(ctx.needs_input_grad[: len(given)], given, strict=True)
    sums = [torch.zeros_like(t) if need else None for need, t in needed]
    for which, rows in pieces(given[0].shape[:4], PIECE):
        places = ((which, rows), ..., which, (which, rows))
        own = [None if t is None else t[place].detach() for t, place in zip(given, places, strict=True)]
        wanted = [number for number, total in enumerate(sums) if total is not None]
        with torch.enable_grad():
            leaves = [own[number].requires_grad_() for number in wanted]  # type: ignore[union-attr]
            values, patterns, states, sent = own
            done = multiply(planes(values, patterns, states.dtype), states, sent)  # type: ignore[arg-type, union-attr]
        found = torch.autograd.grad(done, leaves, (to_target[which, rows], to_source[which]))
        for number, part in zip(wanted, found, strict=True):
            sums[number][places[number]] += part  # type: ignore[index]
    return sums


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
