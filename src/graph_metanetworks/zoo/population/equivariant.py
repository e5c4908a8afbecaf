"""The equivariant layers of DeepSets in a population: `W1 x + W2 mean(x) + b`, with hand-written gradients.

In memory points are columns, `[G, features, batch, points]`, so that each feature is contiguous for batch
norm. The part that all points of a set share is the initial value of the large matrix product.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from graph_metanetworks.zoo.population.linear import Linear


class StackedEquivariant(nn.Module):
    def __init__(self, layers: Sequence[Any]) -> None:
        super().__init__()
        self.each = Linear([layer.each for layer in layers])
        self.pooled = Linear([layer.pooled for layer in layers])

    def forward(self, x: Tensor) -> Tensor:  # [G or 1, batch, points, in] -> [G, batch, points, out]
        columns = x.permute(0, 3, 1, 2).contiguous()
        function = EquivariantFunction if len(columns) == len(self.each.weight) else SharedInputFunction
        return function.apply(columns, self.each.weight, self.each.bias, self.pooled.weight).permute(
            0, 2, 3, 1
        )


class EquivariantFunction(torch.autograd.Function):
    """The layer for inputs `[G, in, batch, points]`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, pooled: Tensor) -> Tensor:
        mean = x.mean(3)  # [G, in, batch]
        shared = torch.baddbmm(bias.unsqueeze(2), pooled, mean)  # [G, out, batch]
        ctx.save_for_backward(x, mean, weight, pooled)
        return _product(shared, x.shape[3], weight, x.flatten(2))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        x, mean, weight, pooled = ctx.saved_tensors
        gradient = gradients[0].contiguous()  # [G, out, batch, points]
        sums = gradient.sum(3)
        shared = torch.bmm(pooled.mT, sums).div_(x.shape[3])  # [G, in, batch]
        by_x = _product(shared, x.shape[3], weight.mT, gradient.flatten(2))
        by_weight = torch.bmm(gradient.flatten(2), x.flatten(2).mT)
        return by_x, by_weight, sums.sum(2), torch.bmm(sums, mean.mT)


class SharedInputFunction(torch.autograd.Function):
    """The layer for inputs `[1, in, batch, points]` that all networks share and that need no gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, pooled: Tensor) -> Tensor:
        networks, outputs, _ = weight.shape
        mean = x[0].mean(2)  # [in, batch]
        shared = torch.addmm(bias.reshape(-1, 1), pooled.flatten(0, 1), mean)  # [G * out, batch]
        ctx.save_for_backward(x, mean)
        y = _product(shared[None], x.shape[3], weight.flatten(0, 1)[None], x.flatten(2))
        return y.view(networks, outputs, *x.shape[2:])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor, Tensor, Tensor]:
        x, mean = ctx.saved_tensors
        gradient = gradients[0].contiguous()
        networks, outputs = gradient.shape[:2]
        sums = gradient.sum(3)  # [G, out, batch]
        by_weight = gradient.view(networks * outputs, -1) @ x[0].flatten(1).mT
        by_pooled = sums.flatten(0, 1) @ mean.mT
        shape = (networks, outputs, -1)
        return None, by_weight.view(shape), sums.sum(2), by_pooled.view(shape)


def _product(shared: Tensor, points: int, weight: Tensor, x: Tensor) -> Tensor:
    """Return `weight @ x` plus the part that all points of a set share: `[G, out, batch, points]`."""
    y = shared.unsqueeze(3).expand(*shared.shape, points).contiguous()
    y.flatten(2).baddbmm_(weight, x)
    return y
