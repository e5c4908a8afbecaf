"""Reductions of rows that share an index, with torch's own operations."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

Reduction = Literal["sum", "mean", "max"]
REDUCTIONS = ("sum", "mean", "max")
TINY = 1e-16  # added to sums that are divided by


def scatter(rows: Tensor, index: Tensor, size: int, reduction: Reduction = "sum") -> Tensor:
    """Reduce the rows of each index; an index without rows gets 0. [n, ...], [n] -> [size, ...]

    >>> import torch
    >>> scatter(torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([0, 2, 2]), 3, "mean").tolist()
    [[1.0], [0.0], [2.5]]
    """
    if reduction not in REDUCTIONS:
        raise ValueError(f"reduction={reduction!r} is none of {', '.join(REDUCTIONS)}")
    wide = _broadcast(index, rows)
    result = rows.new_zeros(size, *rows.shape[1:])
    if reduction == "max":
        return result.scatter_reduce_(0, wide, rows, reduce="amax", include_self=False)
    result = result.scatter_add_(0, wide, rows)
    if reduction == "sum":
        return result
    counts = rows.new_zeros(size).scatter_add_(0, index, rows.new_ones(len(rows)))
    return result / _broadcast(counts.clamp(min=1), result)


def scatter_softmax(scores: Tensor, index: Tensor, size: int) -> Tensor:
    """Compute the softmax over the rows of each index. [n, ...], [n] -> [n, ...]"""
    largest = scatter(scores.detach(), index, size, "max")
    exponentials = (scores - largest.index_select(0, index)).exp()
    sums = scatter(exponentials, index, size) + TINY
    return exponentials / sums.index_select(0, index)


def _broadcast(numbers: Tensor, rows: Tensor) -> Tensor:
    """[n] -> the shape [n, ...] of `rows`, without a copy."""
    return numbers.view(-1, *(1 for _ in rows.shape[1:])).expand_as(rows)
