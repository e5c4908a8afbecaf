"""SGD, Adam and RMSprop over networks as rows, each with its own learning rate; steps as in `torch.optim`."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

MOMENTUM = 0.9
FORGETTING = (0.9, 0.999)  # of Adam: of the mean, of the square
SMOOTHING = 0.99  # of RMSprop
EPSILON = 1e-8


class RowOptimizer(ABC):
    """Updates weights `[rows, parameters]` in place."""

    def __init__(self, weights: Tensor) -> None:
        self.taken = 0

    @abstractmethod
    def step(self, weights: Tensor, gradient: Tensor, rate: Tensor) -> None:
        """`rate` is `[rows, 1]`."""


class Sgd(RowOptimizer):
    def __init__(self, weights: Tensor) -> None:
        super().__init__(weights)
        self.velocity = torch.zeros_like(weights)

    def step(self, weights: Tensor, gradient: Tensor, rate: Tensor) -> None:
        self.velocity.mul_(MOMENTUM).add_(gradient)
        weights.addcmul_(self.velocity, rate, value=-1)


class Adam(RowOptimizer):
    def __init__(self, weights: Tensor) -> None:
        super().__init__(weights)
        self.mean = torch.zeros_like(weights)
        self.square = torch.zeros_like(weights)

    def step(self, weights: Tensor, gradient: Tensor, rate: Tensor) -> None:
        self.taken += 1
        first, second = FORGETTING
        self.mean.lerp_(gradient, 1 - first)
        self.square.mul_(second).addcmul_(gradient, gradient, value=1 - second)
        spread = self.square.sqrt().div_((1 - second**self.taken) ** 0.5).add_(EPSILON)
        weights.addcmul_(self.mean / spread, rate, value=-1 / (1 - first**self.taken))


class RmsProp(RowOptimizer):
    def __init__(self, weights: Tensor) -> None:
        super().__init__(weights)
        self.square = torch.zeros_like(weights)

    def step(self, weights: Tensor, gradient: Tensor, rate: Tensor) -> None:
        self.square.mul_(SMOOTHING).addcmul_(gradient, gradient, value=1 - SMOOTHING)
        weights.addcmul_(gradient / self.square.sqrt().add_(EPSILON), rate, value=-1)


ROW_OPTIMIZERS: dict[str, type[RowOptimizer]] = {"sgd": Sgd, "adam": Adam, "rmsprop": RmsProp}
