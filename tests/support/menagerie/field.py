"""Neural fields: networks from coordinates to values."""

import math
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .architecture import architecture
from .inputs import inputs, normal, uniform

field = partial(architecture, family="field")


@field("siren", example=inputs(uniform(15, 2)))
class Siren(nn.Module):
    """Sinusoidal representation network, https://arxiv.org/abs/2006.09661."""

    def __init__(self, frequency: float = 4.0) -> None:
        super().__init__()
        self.frequency = frequency
        self.hidden = nn.ModuleList([nn.Linear(2, 12), nn.Linear(12, 10)])
        self.head = nn.Linear(10, 3)

    def forward(self, x: Tensor) -> Tensor:  # [B, 2] -> [B, 3]
        for layer in self.hidden:
            x = torch.sin(self.frequency * layer(x))
        return self.head(x)


@field("siren-without-bias", example=inputs(uniform(15, 2)))
class SirenWithoutBias(nn.Module):
    """Sines without phases; the frequency is part of the weights."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(2, 12, bias=False), nn.Linear(12, 10, bias=False)])
        self.head = nn.Linear(10, 3)

    def forward(self, x: Tensor) -> Tensor:  # [B, 2] -> [B, 3]
        for layer in self.layers:
            x = layer(x).sin()
        return self.head(x)


@field("siren-cosine", example=inputs(uniform(15, 2)))
class SirenCosine(nn.Module):
    """Cosines in a residual stream, and a sine whose sign is fixed, because a sigmoid reads it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(2, 12), nn.Linear(12, 12)
        self.last, self.head = nn.Linear(12, 9), nn.Linear(9, 3)

    def forward(self, x: Tensor) -> Tensor:  # [B, 2] -> [B, 3]
        x = torch.cos(3.0 * self.first(x))
        x = x + torch.cos(self.second(x) / 0.5)
        return self.head(torch.sigmoid(torch.sin(-self.last(x))))


@field("fourier-features-with-phases", example=inputs(uniform(15, 2)))
class FourierFeaturesWithPhases(nn.Module):
    """Learned frequencies and phases, each read by a sine and a cosine."""

    def __init__(self) -> None:
        super().__init__()
        self.angles, self.inner, self.head = nn.Linear(2, 7), nn.Linear(14, 11), nn.Linear(11, 3)

    def forward(self, x: Tensor) -> Tensor:  # [B, 2] -> [B, 3]
        angles = 2 * math.pi * self.angles(x)
        return self.head(F.relu(self.inner(torch.cat([angles.sin(), angles.cos()], dim=-1))))


@field("nerf", example=inputs(uniform(15, 3), normal(15, 3)))
class NeRF(nn.Module):
    """Colour and density of a point seen from a direction, https://arxiv.org/abs/2003.08934."""

    def __init__(self, width: int = 12, octaves: int = 2) -> None:
        super().__init__()
        self.octaves = octaves
        encoded = 3 + 6 * octaves
        self.before_skip = nn.ModuleList([nn.Linear(encoded, width), nn.Linear(width, width)])
        self.after_skip = nn.ModuleList([nn.Linear(width + encoded, width), nn.Linear(width, 11)])
        self.density = nn.Linear(11, 1)
        self.feature = nn.Linear(11, 10)
        self.view = nn.Linear(10 + encoded, 8)
        self.colour = nn.Linear(8, 3)

    def encode(self, x: Tensor) -> Tensor:  # [B, 3] -> [B, 3 + 6 * octaves]
        angles = [2**octave * math.pi * x for octave in range(self.octaves)]
        return torch.cat([x, *map(torch.sin, angles), *map(torch.cos, angles)], dim=-1)

    def forward(self, position: Tensor, direction: Tensor) -> Tensor:  # [B, 3], [B, 3] -> [B, 4]
        encoded = self.encode(position)
        x = encoded
        for layer in self.before_skip:
            x = F.relu(layer(x))
        x = torch.cat([x, encoded], dim=-1)
        for layer in self.after_skip:
            x = F.relu(layer(x))
        view = torch.cat([self.feature(x), self.encode(F.normalize(direction, dim=-1))], dim=-1)
        colour = torch.sigmoid(self.colour(F.relu(self.view(view))))
        return torch.cat([colour, F.softplus(self.density(x))], dim=-1)


@field("fourier-features", example=inputs(uniform(15, 2)))
class FourierFeatures(nn.Module):
    """Fixed random frequencies, stored as a persistent buffer, before a perceptron."""

    def __init__(self, frequencies: int = 7) -> None:
        super().__init__()
        self.register_buffer("frequencies", 3 * torch.randn(2, frequencies))
        self.inner = nn.Linear(2 * frequencies, 11)
        self.head = nn.Linear(11, 3)

    def forward(self, x: Tensor) -> Tensor:  # [B, 2] -> [B, 3]
        angles = x @ self.frequencies
        return self.head(F.relu(self.inner(torch.cat([angles.sin(), angles.cos()], dim=-1))))


@field("multiplicative-filter-network", example=inputs(uniform(15, 2)))
class MultiplicativeFilter(nn.Module):
    """Products of sinusoids of the input, https://openreview.net/forum?id=OmtmcPkkhT."""

    def __init__(self, width: int = 9, depth: int = 3) -> None:
        super().__init__()
        self.filters = nn.ModuleList(nn.Linear(2, width) for _ in range(depth))
        self.linears = nn.ModuleList(nn.Linear(width, width) for _ in range(depth - 1))
        self.head = nn.Linear(width, 3)

    def forward(self, x: Tensor) -> Tensor:  # [B, 2] -> [B, 3]
        hidden = self.filters[0](x).sin()
        for linear, sinusoid in zip(self.linears, self.filters[1:], strict=True):
            hidden = linear(hidden) * sinusoid(x).sin()
        return self.head(hidden)
