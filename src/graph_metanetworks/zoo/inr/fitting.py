"""Fit INRs: options, results, and the plain training loop for one network."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

LearningRateSchedule = Literal["constant", "cosine"]


@dataclass(frozen=True, slots=True)
class FitOptions:
    """Options of full-batch Adam.

    Fitting stops before an update if the loss is at most `stop_loss`, or not finite.

    >>> [round(FitOptions(steps=4, learning_rate=1.0).rate(step), 3) for step in range(4)]
    [1.0, 0.854, 0.5, 0.146]
    """

    steps: int
    learning_rate: float
    schedule: LearningRateSchedule = "cosine"  # cosine decay to zero, or constant
    weight_decay: float = 0.0  # added to the gradient, as in torch.optim.Adam
    stop_loss: float | None = None

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ValueError(f"steps must be at least 1, not {self.steps}")
        if not self.learning_rate > 0:
            raise ValueError(f"the learning rate must be positive, not {self.learning_rate}")
        if self.schedule not in ("constant", "cosine"):
            raise ValueError(f"schedule must be 'constant' or 'cosine', not {self.schedule!r}")
        for name in ("weight_decay", "stop_loss"):
            if (getattr(self, name) or 0) < 0:
                raise ValueError(f"{name} must not be negative: {getattr(self, name)}")

    def rate(self, step: int) -> float:
        """Return the learning rate of a step, counted from 0."""
        if self.schedule == "constant":
            return self.learning_rate
        return self.learning_rate * (1 + math.cos(math.pi * step / self.steps)) / 2

    def is_last(self, step: int, loss: float) -> bool:
        """Return whether fitting stops after `step` updates with this loss."""
        reached = self.stop_loss is not None and loss <= self.stop_loss
        return step >= self.steps or reached or not math.isfinite(loss)


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted network: its weights, their loss, and the number of updates."""

    state_dict: dict[str, Tensor]
    loss: float
    steps: int


def fit_alone(network: nn.Module, coordinates: Tensor, values: Tensor, options: FitOptions) -> Fit:
    """Fit one network with autograd. Populations must give the same result as this plain loop.

    `coordinates` has shape [points, inputs], `values` [points, outputs].
    """
    optimizer = torch.optim.Adam(
        network.parameters(), lr=options.learning_rate, weight_decay=options.weight_decay
    )
    step = 0
    while True:
        loss = torch.nn.functional.mse_loss(network(coordinates), values)
        if options.is_last(step, value := loss.item()):
            weights = {name: tensor.detach().clone() for name, tensor in network.state_dict().items()}
            return Fit(weights, value, step)
        optimizer.param_groups[0]["lr"] = options.rate(step)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
