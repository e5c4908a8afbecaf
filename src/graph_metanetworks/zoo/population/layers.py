"""Layers of a population: the layers of torch with parameters stacked over networks.

Activations are `[G, batch, ...]`: the shape that one network has, and networks in front. `G` is 1 as long as
all networks see the same values, that is up to the first layer with weights, which then is one product.
Where the axes lie in memory is another matter: after a convolution it is batch, height, width, networks,
channels, which is what grouped convolutions are fast on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional


class NotStackable(TypeError):
    """These modules have no form for populations; the message says why."""


class Stacked(nn.Module):
    """A layer of a population, made of the layers of its networks."""

    alike: ClassVar[tuple[str, ...]] = ()  # attributes in which the networks must agree

    def __init__(self, layers: Sequence[Any]) -> None:
        super().__init__()
        for name in self.alike:
            values = [getattr(layer, name) for layer in layers]
            if any(value != values[0] for value in values):
                raise NotStackable(f"{type(layers[0]).__name__} layers differ in {name}")
            setattr(self, name, values[0])
        first = layers[0]
        for name, value in first.named_parameters(recurse=False):
            stacked = torch.stack([getattr(layer, name).detach() for layer in layers])
            self.register_parameter(name, nn.Parameter(stacked, requires_grad=value.requires_grad))
        for name, _ in first.named_buffers(recurse=False):
            self.register_buffer(name, torch.stack([getattr(layer, name) for layer in layers]))
        for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"):
            if getattr(first, name, None) is None:
                setattr(self, name, None)


class Linear(Stacked):
    alike = ("in_features", "out_features")
    weight: Tensor  # [G, out, in]
    bias: Tensor | None  # [G, out]

    def forward(self, x: Tensor) -> Tensor:  # [G or 1, ..., in] -> [G, ..., out]
        if x.shape[0] == 1 < len(self.weight) or x.stride(-1) != 1:
            return self._columns(x)
        rows = x.flatten(1, -2)  # [G, N, in]
        if self.bias is None:
            return torch.bmm(rows, self.weight.mT).unflatten(1, x.shape[1:-1])
        return torch.baddbmm(self.bias.unsqueeze(1), rows, self.weight.mT).unflatten(1, x.shape[1:-1])

    def _columns(self, x: Tensor) -> Tensor:
        """Features lie in memory before the batch: then channel norms find theirs in one piece."""
        columns = x.movedim(-1, 1).flatten(2)  # [G or 1, in, N]
        if len(columns) == 1 < len(self.weight):
            y = torch.mm(self.weight.flatten(0, 1), columns[0]).unflatten(0, self.weight.shape[:2])
        else:
            y = torch.bmm(self.weight, columns)  # [G, out, N]
        if self.bias is not None:
            y = y + self.bias.unsqueeze(2)
        return y.unflatten(2, x.shape[1:-1]).movedim(1, -1)


class Convolution(Stacked):
    """In one or two dimensions; one dimension is taken as an image of height 1."""

    alike = ("in_channels", "stride", "padding", "dilation", "groups", "padding_mode", "transposed")
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int
    padding_mode: str
    transposed: bool
    weight: Tensor  # [G, out, in / groups, *kernel]
    bias: Tensor | None  # [G, out]

    def __init__(self, layers: Sequence[Any]) -> None:
        super().__init__(layers)
        if self.padding_mode != "zeros" or self.transposed or isinstance(self.padding, str):
            raise NotStackable(f"a convolution with padding {self.padding_mode!r} {self.padding!r}")

    def forward(self, x: Tensor) -> Tensor:  # [G or 1, batch, in, *size] -> [G, batch, out, *size]
        if x.dim() == 4:
            return self._planar(x.unsqueeze(-2)).squeeze(-2)
        return self._planar(x)

    def _planar(self, x: Tensor) -> Tensor:  # [G or 1, batch, in, height, width]
        networks, outputs = self.weight.shape[:2]
        weight = self.weight.flatten(0, 1)
        stride, padding, dilation = self.stride, self.padding, self.dilation
        if weight.dim() == 3:
            weight = weight.unsqueeze(-2)
            stride, padding, dilation = (1, *stride), (0, *padding), (1, *dilation)
        bias = None if self.bias is None else self.bias.flatten()
        if len(x) == 1 < networks and self.groups == 1 and set(dilation) == {1}:
            y = one_product(x[0], weight, bias, stride, padding)
        else:
            groups = self.groups if len(x) == 1 else networks * self.groups
            flat = x.transpose(0, 1).flatten(1, 2).contiguous(memory_format=torch.channels_last)
            weight = weight.contiguous(memory_format=torch.channels_last)
            y = functional.conv2d(flat, weight, bias, stride, padding, dilation, groups)
        return y.unflatten(1, (networks, outputs)).transpose(0, 1)


def one_product(
    images: Tensor, weight: Tensor, bias: Tensor | None, stride: Sequence[int], padding: Sequence[int]
) -> Tensor:
    """A convolution as a product with the patches of images, which all networks share."""
    high, wide = weight.shape[2:]
    padded = functional.pad(images, (padding[1], padding[1], padding[0], padding[0]))
    patches = padded.unfold(2, high, stride[0]).unfold(3, wide, stride[1])  # [batch, in, h, w, high, wide]
    batch, _, height, width = patches.shape[:4]
    rows = patches.permute(0, 2, 3, 1, 4, 5).reshape(batch * height * width, -1)
    columns = weight.flatten(1).t().contiguous()  # in this order the gradient's product is five times as fast
    y = rows @ columns if bias is None else torch.addmm(bias, rows, columns)
    return y.view(batch, height, width, -1).permute(0, 3, 1, 2)


class BatchNorm(Stacked):
    alike = ("num_features", "eps", "momentum", "track_running_stats")
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
        y = self._norm(x.transpose(0, 1).flatten(1, 2))
        return y.unflatten(1, (networks, -1)).transpose(0, 1)

    def _norm(self, x: Tensor) -> Tensor:  # [any, G * features, ...]
        statistics = (self.running_mean.view(-1), self.running_var.view(-1))
        weight, bias = (None if v is None else v.flatten() for v in (self.weight, self.bias))
        return functional.batch_norm(x, *statistics, weight, bias, self.training, self.momentum, self.eps)


class GroupNorm(Stacked):
    alike = ("num_groups", "num_channels", "eps")
    num_groups: int
    eps: float
    weight: Tensor | None  # [G, channels]
    bias: Tensor | None

    def forward(self, x: Tensor) -> Tensor:  # [G, batch, channels, ...]
        networks = x.shape[0] if self.weight is None else self.weight.shape[0]
        flat = x.expand(networks, *x.shape[1:]).transpose(0, 1).flatten(1, 2)
        weight, bias = (None if v is None else v.flatten() for v in (self.weight, self.bias))
        y = functional.group_norm(flat, networks * self.num_groups, weight, bias, self.eps)
        return y.unflatten(1, (networks, -1)).transpose(0, 1)


class LayerNorm(Stacked):
    alike = ("normalized_shape", "eps")
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


class Dropout(Stacked):
    """Each network with its own rate, and with the mask that `nn.Dropout` would draw from its generator."""

    def __init__(self, layers: Sequence[nn.Dropout]) -> None:
        super().__init__(layers)
        self.rates = [layer.p for layer in layers]
        self.generators: Sequence[torch.Generator] = ()

    def forward(self, x: Tensor) -> Tensor:  # [G, ...]
        if not self.training or not any(self.rates):
            return x
        mask = torch.ones(len(self.rates), *x.shape[1:], dtype=x.dtype)
        for row, rate, generator in zip(mask, self.rates, self.generators, strict=True):
            if rate:
                row.bernoulli_(1 - rate, generator=generator).div_(1 - rate)
        return x * mask


class Merged(nn.Module):
    """A layer without weights that treats images one by one: networks are only more images to it."""

    def __init__(self, layers: Sequence[nn.Module]) -> None:
        super().__init__()
        if any(repr(layer) != repr(layers[0]) for layer in layers):
            raise NotStackable(f"{type(layers[0]).__name__} layers differ")
        self.layer = layers[0]

    def forward(self, x: Tensor) -> Tensor:  # [G, batch, ...]
        return self.layer(x.flatten(0, 1)).unflatten(0, x.shape[:2])


class GlobalAverage(nn.Module):
    """The mean over all places of an image. Its gradient lies in memory as that of a convolution does."""

    def __init__(self, layers: Sequence[Any]) -> None:
        super().__init__()
        if any(layer.output_size not in (1, (1,), (1, 1)) for layer in layers):
            raise NotStackable("an adaptive pooling to more than one place")

    def forward(self, x: Tensor) -> Tensor:  # [G, batch, channels, *size] -> [G, batch, channels, *ones]
        channels_first = x.transpose(1, 2)
        if channels_first.is_contiguous():
            return channels_first.mean(tuple(range(3, x.dim())), keepdim=True).transpose(1, 2)
        flat = x.transpose(0, 1).flatten(1, 2)  # [batch, G * channels, *size]
        y = flat.mean(tuple(range(2, flat.dim())), keepdim=True)
        return y.unflatten(1, (len(x), -1)).transpose(0, 1)


STACKED: dict[type[nn.Module], Callable[[Sequence[Any]], nn.Module]] = {
    nn.Linear: Linear,
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
