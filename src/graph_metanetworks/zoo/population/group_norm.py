"""Group norm for tensors whose channels precede the batch in memory, as in DeepSets.

The kernel of torch needs the batch first, and two copies per call would cost more than the norm.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class ColumnGroupNorm(torch.autograd.Function):
    """Group norm of `[G, groups, channels, batch, positions]`, with parameters `[G, groups, channels, 1]`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, epsilon: float) -> Tensor:
        mean = x.mean(-1).mean(2, keepdim=True)
        centred = x - mean.unsqueeze(-1)
        squares = torch.linalg.vector_norm(centred, dim=-1).square_() / x.shape[-1]  # var_mean is slower
        inverse = (squares.mean(2, keepdim=True) + epsilon).rsqrt_()  # [G, groups, 1, batch]
        ctx.save_for_backward(centred, weight, inverse)
        # faster than addcmul
        return torch.mul(centred, (inverse * weight).unsqueeze(-1)).add_(bias.unsqueeze(-1))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        (gradient,) = gradients
        centred, weight, inverse = ctx.saved_tensors
        count = centred.shape[2] * centred.shape[4]
        plain = gradient.sum(-1)  # [G, groups, channels, batch]
        product = gradient * centred
        along = product.sum(-1) * inverse  # with the normalised values
        mean_plain = (weight * plain).sum(2, keepdim=True) / count
        mean_along = (weight * along).sum(2, keepdim=True) / count
        slope = -inverse.square() * mean_along
        constant = -inverse * mean_plain
        result = torch.mul(centred, slope.unsqueeze(-1), out=product).add_(constant.unsqueeze(-1))
        result.addcmul_(gradient, (inverse * weight).unsqueeze(-1))
        return result, along.sum(3, keepdim=True), plain.sum(3, keepdim=True), None
