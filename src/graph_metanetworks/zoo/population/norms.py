"""Normalisation layers of a population."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from graph_metanetworks.zoo.population.group_norm import ColumnGroupNorm
from graph_metanetworks.zoo.population.stacked import NotStackable, Stacked


class BatchNorm(Stacked):
    shared = ("num_features", "eps", "momentum", "track_running_stats")
    eps: float
    momentum: float
    track_running_stats: bool
    weight: Tensor | None  # [G, features]
    bias: Tensor | None
    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor  # [G]

    def __init__(self, layers: Sequence[Any]) -> None:
        super().__init__(layers)
        if self.momentum is None or not self.track_running_stats:
            raise NotStackable("a batch norm without momentum or without running statistics")

    def forward(self, x: Tensor) -> Tensor:  # [G, batch, features, ...]
        if self.training:
            self.num_batches_tracked.add_(1)
        networks = self.running_mean.shape[0]
        x = x.expand(networks, *x.shape[1:])
        features_first = x.transpose(1, 2)
        if features_first.is_contiguous():
            y = self._norm(features_first.reshape(1, x.shape[0] * x.shape[2], -1))
            return y.view(features_first.shape).transpose(1, 2)
        flat = x.transpose(0, 1).flatten(1, 2)
        y = self._norm(flat.flatten(2)).unflatten(2, flat.shape[2:])
        return y.unflatten(1, (networks, -1)).transpose(0, 1)

    def _norm(self, x: Tensor) -> Tensor:  # [any, G * features, positions]
        statistics = (self.running_mean.view(-1), self.running_var.view(-1))
        weight, bias = (None if v is None else v.flatten() for v in (self.weight, self.bias))
        if self.training and x.is_contiguous():
            return BatchNormalized.apply(x, weight, bias, *statistics, self.momentum, self.eps)
        y = functional.batch_norm(
            planar(x), *statistics, weight, bias, self.training, self.momentum, self.eps
        )
        return y.view(x.shape)


class BatchNormalized(torch.autograd.Function):
    """`functional.batch_norm` in training mode, for `[any, features, positions]`.

    The original spends most of its time on statistics, which it accumulates one by one in double precision.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        running_mean: Tensor,
        running_variance: Tensor,
        momentum: float,
        epsilon: float,
    ) -> Tensor:
        count = x.shape[0] * x.shape[2]
        mean = x.mean(2).mean(0)
        centred = x - mean[:, None]
        norms = torch.linalg.vector_norm(torch.linalg.vector_norm(centred, dim=2), dim=0)
        variance = norms.square_().div_(count)
        running_mean.lerp_(mean, momentum)
        running_variance.lerp_(variance * (count / (count - 1)), momentum)
        ctx.save_for_backward(x, weight, mean, (variance + epsilon).rsqrt_())
        ctx.epsilon = epsilon
        return torch.native_batch_norm(x, weight, bias, mean, variance, False, 0.0, epsilon)[0]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, mean, inverse = ctx.saved_tensors
        found = torch.ops.aten.native_batch_norm_backward(
            gradients[0].contiguous(), x, weight, None, None, mean, inverse, True, ctx.epsilon, [True] * 3
        )
        return (*found, None, None, None, None)


class GroupNorm(Stacked):
    shared = ("num_groups", "num_channels", "eps")
    num_groups: int
    eps: float
    weight: Tensor | None  # [G, channels]
    bias: Tensor | None

    def forward(self, x: Tensor) -> Tensor:  # [G, batch, channels, ...]
        networks = x.shape[0] if self.weight is None else self.weight.shape[0]
        x = x.expand(networks, *x.shape[1:])
        channels_first = x.transpose(1, 2)
        if self.weight is not None and self.bias is not None and channels_first.is_contiguous():
            return self._columns(channels_first, self.weight, self.bias).transpose(1, 2)
        flat = x.transpose(0, 1).flatten(1, 2)
        weight, bias = (None if v is None else v.flatten() for v in (self.weight, self.bias))
        y = functional.group_norm(planar(flat), networks * self.num_groups, weight, bias, self.eps)
        return y.view(flat.shape).unflatten(1, (networks, -1)).transpose(0, 1)

    def _columns(self, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:  # [G, channels, batch, ...]
        grouped = (1, (self.num_groups, -1))
        columns = x.unflatten(*grouped).flatten(4)
        affine = (value.unflatten(*grouped).unsqueeze(-1) for value in (weight, bias))
        return ColumnGroupNorm.apply(columns, *affine, self.eps).view(x.shape)


class LayerNorm(Stacked):
    shared = ("normalized_shape", "eps")
    normalized_shape: tuple[int, ...]
    eps: float
    weight: Tensor | None  # [G, *shape]
    bias: Tensor | None

    def forward(self, x: Tensor) -> Tensor:  # [G, ..., *shape]
        y = functional.layer_norm(x, self.normalized_shape, eps=self.eps)
        if self.weight is None:
            return y
        between = (1,) * (x.dim() - self.weight.dim())
        weight = self.weight.unflatten(0, (-1, *between))
        if self.bias is None:
            return y * weight
        return torch.addcmul(self.bias.unflatten(0, (-1, *between)), y, weight)


def planar(x: Tensor) -> Tensor:  # [batch, channels, *size] -> [batch, channels, 1, positions]
    """View as images, the only layout for which torch recognises channels-last memory."""
    return x.flatten(2).unsqueeze(2)
