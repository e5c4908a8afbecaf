"""Intervals around predictions, by split conformal prediction."""

from __future__ import annotations

from math import ceil, inf, sqrt

import torch
from torch import Tensor

FLOOR = 0.01  # so that intervals near 0 and 1 are not empty


def scale(predicted: Tensor) -> Tensor:
    """How large errors may be: accuracies near 0 and 1 are known better than those between."""
    return (predicted * (1 - predicted) + FLOOR).sqrt()


def errors(predicted: Tensor, true: Tensor) -> Tensor:
    """Errors in units of `scale`. [n]"""
    return (predicted - true).abs() / scale(predicted)


def residuals(predicted: Tensor, true: Tensor) -> Tensor:
    """Errors of networks that were not trained on, ascending. [n]"""
    return errors(predicted, true).sort().values


def interval(predicted: Tensor, calibration: Tensor, level: float) -> tuple[Tensor, Tensor]:
    """Lower and upper ends that hold the truth with probability `level`, if networks are like those known.

    With too few residuals for the level, it is all that is possible.

    >>> low, high = interval(torch.tensor([0.5]), torch.linspace(0, 0.1, 99), level=0.9)
    >>> [round(float(end), 3) for end in (low, high)]
    [0.454, 0.546]
    >>> interval(torch.tensor([0.5]), torch.tensor([0.1]), level=0.9)
    (tensor([0.]), tensor([1.]))
    """
    width = quantile(calibration, level) * scale(predicted)
    return (predicted - width).clamp(min=0), (predicted + width).clamp(max=1)


def quantile(calibration: Tensor, level: float) -> float:
    """The quantile that conformal prediction takes of n residuals: one more than the share asks for."""
    if not 0 < level < 1:
        raise ValueError(f"level={level} must lie between 0 and 1, such as 0.9")
    place = ceil((len(calibration) + 1) * level) - 1
    return float(calibration[place]) if place < len(calibration) else inf


def coverage_error(level: float, networks: int, known: int) -> float:
    """The standard deviation of the coverage of `networks` by intervals that come from `known` residuals.

    >>> round(coverage_error(0.9, 10_000, 100), 3)  # few residuals decide as much as few networks would
    0.03
    """
    return sqrt(level * (1 - level) * (1 / max(1, networks) + 1 / max(1, known)))


def covered(predicted: Tensor, true: Tensor, calibration: Tensor, level: float) -> float:
    """The share of networks whose accuracy lies in their interval, ends included."""
    return float((errors(predicted, true) <= quantile(calibration, level)).to(torch.float64).mean())
