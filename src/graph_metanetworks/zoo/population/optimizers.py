"""SGD, Adam and RMSprop for networks as rows, each with its own learning rate. Steps match `torch.optim`."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

MOMENTUM = 0.9
BETAS = (0.9, 0.999)  # of Adam
ALPHA = 0.99  # of RMSprop
EPSILON = 1e-8


class RowOptimizer(ABC):
    """An optimiser that updates weights `[rows, parameters]` in place."""

    def __init__(self, weights: Tensor) -> None:
        self.steps = 0

    @abstractmethod
    def step(self, weights: Tensor, gradient: Tensor, rate: Tensor) -> None:
        """Update the weights with learning rates `rate` `[rows, 1]`."""


class Sgd(RowOptimizer):
    def __init__(self, weights: Tensor) -> None:
        super().__init__(weights)
        self.momentum_buffer = torch.zeros_like(weights)

    def step(self, weights: Tensor, gradient: Tensor, rate: Tensor) -> None:
        self.momentum_buffer.mul_(MOMENTUM).add_(gradient)
        weights.addcmul_(self.momentum_buffer, rate, value=-1)


class Adam(RowOptimizer):
    def __init__(self, weights: Tensor) -> None:
        super().__init__(weights)
        self.exp_avg = torch.zeros_like(weights)
        self.exp_avg_sq = torch.zeros_like(weights)

    def step(self, weights: Tensor, gradient: Tensor, rate: Tensor) -> None:
        self.steps += 1
        beta1, beta2 = BETAS
        self.exp_avg.lerp_(gradient, 1 - beta1)
        self.exp_avg_sq.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        denominator = self.exp_avg_sq.sqrt().div_((1 - beta2**self.steps) ** 0.5).add_(EPSILON)
        weights.addcmul_(self.exp_avg / denominator, rate, value=-1 / (1 - beta1**self.steps))


class RmsProp(RowOptimizer):
    def __init__(self, weights: Tensor) -> None:
        super().__init__(weights)
        self.square_avg = torch.zeros_like(weights)

    def step(self, weights: Tensor, gradient: Tensor, rate: Tensor) -> None:
        self.square_avg.mul_(ALPHA).addcmul_(gradient, gradient, value=1 - ALPHA)
        weights.addcmul_(gradient / self.square_avg.sqrt().add_(EPSILON), rate, value=-1)


ROW_OPTIMIZERS: dict[str, type[RowOptimizer]] = {"sgd": Sgd, "adam": Adam, "rmsprop": RmsProp}
