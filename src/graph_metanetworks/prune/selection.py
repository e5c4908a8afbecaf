"""Choose the units to keep from their scores, within the limits of each factor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import torch
from torch import Tensor

from graph_metanetworks.prune.limits import Limits
from graph_metanetworks.symmetry.axes import Axis

MINIMUM, MULTIPLE = "the minimum is", "sizes are multiples of"  # how two reasons begin


@dataclass(frozen=True, eq=False)
class Choice:
    """The scores of the units of one axis, `[*outer, size]`, the share to remove and how many must stay."""

    axis: Axis
    scores: Tensor
    amount: float
    minimum: int


def choose(choices: Sequence[Choice], limits: Limits, multiple_of: int, scope: str) -> dict[Axis, Tensor]:
    """Return which units of each axis are kept. Axes that are tied keep the same number."""
    by_axis = {choice.axis: choice for choice in choices}
    ties = list({id(limits.tied(axis)): limits.tied(axis) for axis in by_axis}.values())
    ties = [[axis for axis in tie if axis in by_axis] for tie in ties]
    if scope == "global":
        removed = _global(ties, by_axis, limits)
    else:
        removed = [round(min(by_axis[a].amount for a in tie) * tie[0].size) for tie in ties]
    kept = {}
    for tie, count in zip(ties, removed, strict=True):
        left = _allowed(tie, by_axis, limits, tie[0].size - count, multiple_of)
        for axis in tie:
            order = by_axis[axis].scores.argsort(dim=-1, descending=True, stable=True)
            kept[axis] = order.argsort(dim=-1) < left
    return kept


def why_kept(choice: Choice, multiple_of: int, scope: str) -> str:
    """Return why an axis that may lose units keeps all of them."""
    size, count = choice.axis.size, round(choice.amount * choice.axis.size)
    if choice.minimum >= size > 1:
        return f"{MINIMUM} {choice.minimum}"
    if scope == "global":
        return "other units rank lower"
    if not count:
        return "the amount is below one unit"
    if ceil(max(size - count, 1) / multiple_of) * multiple_of >= size > 1 < multiple_of:
        return f"{MULTIPLE} {multiple_of}"
    return "the smallest size that is allowed"


def _allowed(tie: list[Axis], by_axis: dict, limits: Limits, left: int, multiple_of: int) -> int:
    """Return the nearest size that is allowed and not smaller."""
    size = tie[0].size
    if any(axis in limits.frozen for axis in tie):
        return size
    left = max(left, 1, *(by_axis[axis].minimum for axis in tie))
    return min(size, ceil(left / multiple_of) * multiple_of)


def _global(ties: list[list[Axis]], by_axis: dict, limits: Limits) -> list[int]:
    """Return how many units of each tie go if all units are ranked together."""
    ranked, total = [], 0.0
    for number, tie in enumerate(ties):
        if any(axis in limits.frozen for axis in tie):
            continue
        # the lowest score of every copy, then the second lowest, ...: one of each goes at a time
        rank = torch.stack([_relative(by_axis[axis].scores) for axis in tie]).mean(0)
        most = tie[0].size - max(1, *(by_axis[axis].minimum for axis in tie))
        ranked += [(float(score), number) for score in rank[:most]]
        total += min(by_axis[axis].amount for axis in tie) * tie[0].size
    removed = [0] * len(ties)
    for _, number in sorted(ranked)[: round(total)]:
        removed[number] += 1
    return removed


def _relative(scores: Tensor) -> Tensor:
    """Return the scores of a factor in ascending order, relative to their mean, over all copies. [size]"""
    lowest_first = scores.reshape(-1, scores.shape[-1]).sort(-1).values.mean(0)
    return lowest_first / lowest_first.mean().clamp(min=1e-30)
