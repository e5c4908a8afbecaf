"""Scores of predictions: R², Kendall's tau, mean absolute error."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torchmetrics.functional import kendall_rank_corrcoef, r2_score


@dataclass(frozen=True)
class Scores:
    """R², Kendall's tau, their mean, and the mean absolute error; NaN where they are not defined."""

    networks: int
    r2: float
    tau: float
    r2_tau: float
    mae: float


def scores(predicted: Tensor, true: Tensor) -> Scores:
    """Score predictions `[n]`.

    >>> found = scores(torch.tensor([0.1, 0.5, 0.8]), torch.tensor([0.2, 0.5, 0.9]))
    >>> round(found.r2, 3), found.tau
    (0.919, 1.0)
    """
    predicted, true = predicted.double(), true.double()
    nothing = float("nan")
    if not len(true):
        return Scores(0, nothing, nothing, nothing, nothing)
    varies = len(true) > 1 and bool(true.max() > true.min())
    ranked = varies and bool(predicted.max() > predicted.min())
    r2 = float(r2_score(predicted, true)) if varies else nothing
    tau = float(torch.as_tensor(kendall_rank_corrcoef(predicted, true))) if ranked else nothing
    return Scores(
        networks=len(true),
        r2=r2,
        tau=tau,
        r2_tau=(r2 + tau) / 2,
        mae=float((predicted - true).abs().mean()),
    )
