"""Layers of a population: the layers of torch with parameters stacked over networks.

Activations are `[G, batch, ...]`: the shape for one network, with an axis of networks in front. `G` is 1 as
long as all networks see the same values, that is up to the first layer with weights, which is then a single
product. The order of axes in memory is a separate matter. After a convolution of images it is batch,
networks, channels, height, width; after one of sequences, batch, positions, networks, channels. These make
grouped convolutions fastest. In DeepSets it is networks, features, batch, points.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from graph_metanetworks.zoo.layers import Equivariant, Subsampling
from graph_metanetworks.zoo.population.convolution import Convolution
from graph_metanetworks.zoo.population.equivariant import StackedEquivariant
from graph_metanetworks.zoo.population.linear import Linear
from graph_metanetworks.zoo.population.norms import BatchNorm, GroupNorm, LayerNorm
from graph_metanetworks.zoo.population.stacked import NotStackable, Stacked


class Dropout(Stacked):
    """Dropout with a rate per network, and with the mask that `nn.Dropout` would draw from its generator."""

    def __init__(self, layers: Sequence[nn.Dropout]) -> None:
        super().__init__(layers)
        self.rates = [layer.p for layer in layers]
        self.generators: Sequence[torch.Generator] = ()

    def forward(self, x: Tensor) -> Tensor:  # [G, ...]
        if not self.training or not any(self.rates):
            return x
        mask = torch.empty(len(self.rates), *x.shape[1:], dtype=x.dtype)
        for row, rate, generator in zip(mask, self.rates, self.generators, strict=True):
            if rate:
                row.bernoulli_(1 - rate, generator=generator).div_(1 - rate)
            else:
                row.fill_(1)
        return x * mask


class Merged(nn.Module):
    """A layer without weights that treats each image separately, so that networks are just more images."""

    def __init__(self, layers: Sequence[nn.Module]) -> None:
        super().__init__()
        if any(repr(layer) != repr(layers[0]) for layer in layers):
            raise NotStackable(f"{type(layers[0]).__name__} layers differ")
        self.layer = layers[0]

    def forward(self, x: Tensor) -> Tensor:  # [G, batch, ...]
        return self.layer(x.flatten(0, 1)).unflatten(0, x.shape[:2])


class GlobalAverage(nn.Module):
    """Global average pooling."""

    def __init__(self, layers: Sequence[Any]) -> None:
        super().__init__()
        if any(layer.output_size not in (1, (1,), (1, 1)) for layer in layers):
            raise NotStackable("adaptive pooling to more than one value per channel")

    def forward(self, x: Tensor) -> Tensor:  # [G, batch, channels, *size] -> [G, batch, channels, *ones]
        return GlobalMean.apply(x)


class GlobalMean(torch.autograd.Function):
    """A mean whose gradient has the memory order of `x`. Otherwise the backward pass is many times slower."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.order = sorted(range(3), key=lambda axis: -x.stride(axis))
        ctx.shape = x.shape
        return x.mean(tuple(range(3, x.dim())), keepdim=True)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (gradient,) = gradients
        order = [*ctx.order, *range(3, gradient.dim())]
        back = sorted(range(gradient.dim()), key=order.index)
        small = gradient.permute(order) / ctx.shape[3:].numel()
        return small.contiguous().permute(back).expand(ctx.shape)


class StackedSubsampling(nn.Module):
    def __init__(self, layers: Sequence[Subsampling]) -> None:
        super().__init__()
        self.stride = layers[0].stride

    def forward(self, x: Tensor) -> Tensor:
        return Subsampled.apply(x, self.stride)


class Subsampled(torch.autograd.Function):
    """Subsampling whose gradient has the memory order of `x`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, stride: int) -> Tensor:
        ctx.stride = stride
        ctx.save_for_backward(x)
        return x[..., ::stride, ::stride]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        result = torch.zeros_like(x)
        result[..., :: ctx.stride, :: ctx.stride] = gradients[0]
        return result, None


STACKED: dict[type[nn.Module], Callable[[Sequence[Any]], nn.Module]] = {
    nn.Linear: Linear,
    Equivariant: StackedEquivariant,
    Subsampling: StackedSubsampling,
    nn.Conv1d: Convolution,
    nn.Conv2d: Convolution,
    nn.BatchNorm1d: BatchNorm,
    nn.BatchNorm2d: BatchNorm,
    nn.GroupNorm: GroupNorm,
    nn.LayerNorm: LayerNorm,
    nn.Dropout: Dropout,
    nn.Flatten: Merged,
    nn.MaxPool2d: Merged,
    nn.AvgPool2d: Merged,
    nn.AdaptiveAvgPool1d: GlobalAverage,
    nn.AdaptiveAvgPool2d: GlobalAverage,
}
POINTWISE = (nn.ReLU, nn.Tanh, nn.GELU, nn.SiLU, nn.Sigmoid, nn.ELU, nn.LeakyReLU, nn.Softplus, nn.Identity)
