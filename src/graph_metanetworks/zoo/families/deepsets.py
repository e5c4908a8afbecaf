"""DeepSets: an image as a set of pixels, each with a positional encoding (Zaheer et al., 2017)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from graph_metanetworks.zoo.draws import Choice, Uniform
from graph_metanetworks.zoo.families.family import ClassifierArchitecture, Family, ImageSpec
from graph_metanetworks.zoo.families.parts import Head, norm_1d
from graph_metanetworks.zoo.layers import Equivariant

FREQUENCIES = 4


class DeepSets(nn.Module):
    stackable = True
    positions: Tensor

    def __init__(self, architecture: ClassifierArchitecture, spec: ImageSpec) -> None:
        super().__init__()
        hidden, depth = architecture.hidden, architecture.depth
        self.register_buffer("positions", positional_encoding(spec.height, spec.width), persistent=False)
        inputs = [spec.channels + self.positions.shape[-1], *[hidden] * (depth - 1)]
        self.layers = nn.ModuleList(Equivariant(features, hidden) for features in inputs)
        self.norms = nn.ModuleList(norm_1d(architecture.norm, hidden) for _ in range(depth))
        self.pool = nn.AdaptiveAvgPool1d(1)
        self.head = Head(architecture, spec)

    def forward(self, x: Tensor) -> Tensor:  # [..., channels, height, width] -> [..., classes]
        points = x.flatten(-2).mT
        x = torch.cat([points, self.positions.expand(*points.shape[:-2], -1, -1)], -1)
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = functional.relu(norm(layer(x).mT)).mT
        return self.head(self.pool(x.mT).flatten(-2))


def positional_encoding(height: int, width: int) -> Tensor:  # [points, 2 + 4 * FREQUENCIES]
    """Return the coordinates in [-1, 1] with their sines and cosines."""
    grid = torch.meshgrid(torch.linspace(-1, 1, height), torch.linspace(-1, 1, width), indexing="ij")
    coordinates = torch.stack(grid, -1).flatten(0, 1)
    angles = [math.pi / 2 * 2**k * coordinates for k in range(FREQUENCIES)]
    return torch.cat([coordinates, *(wave(angle) for angle in angles for wave in (torch.sin, torch.cos))], -1)


DEEPSETS = Family(
    "deepsets",
    hidden=Choice(32, 64),
    depth=Choice(2, 3, 4),
    linear_layers=Choice(1, 2),
    norm=Choice("batch", "group"),
    dropout=Uniform(0, 0.25),
    build=DeepSets,
)
