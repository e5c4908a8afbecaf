"""Prediction intervals by split conformal prediction."""

from __future__ import annotations

from math import ceil, inf, sqrt

import torch
from torch import Tensor

FLOOR = 0.01  # so that intervals near 0 and 1 are not empty


def scale(predicted: Tensor) -> Tensor:
    """Scale of errors: accuracies near 0 and 1 are predicted better than those between."""
    return (predicted * (1 - predicted) + FLOOR).sqrt()


def errors(predicted: Tensor, true: Tensor) -> Tensor:
    """Return errors in units of `scale`. [n]"""
    return (predicted - true).abs() / scale(predicted)


def residuals(predicted: Tensor, true: Tensor) -> Tensor:
    """Return sorted errors of validation networks, which calibrate intervals. [n]"""
    return errors(predicted, true).sort().values


def interval(predicted: Tensor, calibration: Tensor, level: float) -> tuple[Tensor, Tensor]:
    """Return the ends of intervals that hold the truth with probability `level` for similar networks.

    With too few residuals for the level, the interval is [0, 1].

    >>> low, high = interval(torch.tensor([0.5]), torch.linspace(0, 0.1, 99), level=0.9)
    >>> [round(float(end), 3) for end in (low, high)]
    [0.454, 0.546]
    >>> interval(torch.tensor([0.5]), torch.tensor([0.1]), level=0.9)
    (tensor([0.]), tensor([1.]))
    """
    width = quantile(calibration, level) * scale(predicted)
    return (predicted - width).clamp(min=0), (predicted + width).clamp(max=1)


def quantile(calibration: Tensor, level: float) -> float:
    """Return the conformal quantile of n residuals: the ceil((n + 1) level)-th."""
    if not 0 < level < 1:
        raise ValueError(f"level={level} must lie between 0 and 1, such as 0.9")
    place = ceil((len(calibration) + 1) * level) - 1
    return float(calibration[place]) if place < len(calibration) else inf


def coverage_error(level: float, networks: int, known: int) -> float:
    """Return the standard deviation of the coverage of `networks` by intervals from `known` residuals.

    >>> round(coverage_error(0.9, 10_000, 100), 3)  # few residuals matter as much as few networks
    0.03
    """
    return sqrt(level * (1 - level) * (1 / max(1, networks) + 1 / max(1, known)))


def covered(predicted: Tensor, true: Tensor, calibration: Tensor, level: float) -> float:
    """Return the share of networks whose accuracy lies in their interval, ends included."""
    return float((errors(predicted, true) <= quantile(calibration, level)).to(torch.float64).mean())
