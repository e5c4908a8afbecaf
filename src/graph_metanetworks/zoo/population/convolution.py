"""Convolutions of a population: a grouped convolution, or a matrix product for shared inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from graph_metanetworks.zoo.population.stacked import NotStackable, Stacked


class Convolution(Stacked):
    """A convolution in one or two dimensions. A sequence is treated as an image of height 1."""

    shared = ("in_channels", "stride", "padding", "dilation", "groups", "padding_mode", "transposed")
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
            return self._planar(x.unsqueeze(-2), torch.channels_last).squeeze(-2)
        return self._planar(x, torch.contiguous_format)

    def _planar(self, x: Tensor, layout: torch.memory_format) -> Tensor:  # [G or 1, batch, in, height, width]
        networks, outputs = self.weight.shape[:2]
        weight = self.weight.flatten(0, 1)
        stride, padding, dilation = self.stride, self.padding, self.dilation
        if weight.dim() == 3:
            weight = weight.unsqueeze(-2)
            stride, padding, dilation = (1, *stride), (0, *padding), (1, *dilation)
        bias = None if self.bias is None else self.bias.flatten()
        if len(x) == 1 < networks and self.groups == 1 and set(dilation) == {1}:
            y = matmul_convolution(x[0], weight, bias, stride, padding, layout)
        else:
            groups = self.groups if len(x) == 1 else networks * self.groups
            flat = x.transpose(0, 1).flatten(1, 2).contiguous(memory_format=layout)
            weight = weight.contiguous(memory_format=layout)
            y = functional.conv2d(flat, weight, bias, stride, padding, dilation, groups)
        return y.unflatten(1, (networks, outputs)).transpose(0, 1)


def matmul_convolution(
    images: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    layout: torch.memory_format,
) -> Tensor:
    """Convolve images that all networks share, as a matrix product with their patches."""
    high, wide = weight.shape[2:]
    padded = functional.pad(images, (padding[1], padding[1], padding[0], padding[0]))
    patches = padded.unfold(2, high, stride[0]).unfold(3, wide, stride[1])  # [batch, in, h, w, high, wide]
    batch, _, height, width = patches.shape[:4]
    if layout == torch.channels_last:
        rows = patches.permute(0, 2, 3, 1, 4, 5).reshape(batch * height * width, -1)
        y = functional.linear(rows, weight.flatten(1), bias)
        return y.view(batch, height, width, -1).permute(0, 3, 1, 2)
    columns = patches.permute(0, 1, 4, 5, 2, 3).reshape(batch, -1, height * width)
    weights = weight.flatten(1).expand(batch, -1, -1)
    y = torch.bmm(weights, columns) if bias is None else torch.baddbmm(bias[:, None], weights, columns)
    return y.unflatten(2, (height, width))
