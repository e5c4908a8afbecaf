"""Prediction intervals by split conformal prediction, with a margin for few validation networks.

Plain split conformal intervals hold their level on average over draws of the validation networks. With 40 of
them, one draw in three falls short by more than 4 %. These hold it for nine draws in ten.
"""

from __future__ import annotations

from math import inf, sqrt

import numpy as np
import torch
from scipy.special import bdtr
from torch import Tensor

FLOOR = 0.01  # so that intervals near 0 and 1 are not empty
CONFIDENCE = 0.9  # that the coverage of networks like the validation networks is at least the level


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
    """Return the ends of intervals that hold the truth for at least the share `level` of similar networks.

    With too few residuals for the level, the interval is [0, 1].

    >>> low, high = interval(torch.tensor([0.5]), torch.linspace(0, 0.1, 99), level=0.9)
    >>> [round(float(end), 3) for end in (low, high)]
    [0.452, 0.548]
    >>> interval(torch.tensor([0.5]), torch.tensor([0.1]), level=0.9)
    (tensor([0.]), tensor([1.]))
    """
    width = quantile(calibration, level) * scale(predicted)
    return (predicted - width).clamp(min=0), (predicted + width).clamp(max=1)


def quantile(calibration: Tensor, level: float) -> float:
    """Return the smallest residual that is large enough for the level, with confidence.

    A new residual is below the k-th of n with a probability that varies with the n, as a beta distribution
    with parameters k and n + 1 - k.
    """
    if not 0 < level < 1:
        raise ValueError(f"level={level} must lie between 0 and 1, such as 0.9")
    count = len(calibration)
    confidence = bdtr(np.arange(count, dtype=float), count, level)  # of the 1st, 2nd, ... residual
    place = int(np.searchsorted(confidence, CONFIDENCE))
    return float(calibration[place]) if place < count else inf


def coverage_error(level: float, networks: int) -> float:
    """Return the standard deviation of the share of `networks` that intervals of this level hold.

    >>> round(coverage_error(0.9, 900), 3)
    0.01
    """
    return sqrt(level * (1 - level) / max(1, networks))


def covered(predicted: Tensor, true: Tensor, calibration: Tensor, level: float) -> float:
    """Return the share of networks whose accuracy lies in their interval, ends included."""
    return float((errors(predicted, true) <= quantile(calibration, level)).to(torch.float64).mean())
