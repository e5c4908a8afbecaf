"""Vision transformers (Dosovitskiy et al., 2021): the embedding of patches is a convolution."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from graph_metanetworks.zoo.draws import Choice, Uniform
from graph_metanetworks.zoo.families.family import Architecture, Family, Task

HEADS = 2
WIDENING = 4  # of the hidden layer between two linear layers


class Attention(nn.Module):
    stackable = True

    def __init__(self, features: int) -> None:
        super().__init__()
        self.projections = nn.Linear(features, 3 * features)
        self.out = nn.Linear(features, features)

    def forward(self, x: Tensor) -> Tensor:  # [..., tokens, features]
        projected = self.projections(x).unflatten(-1, (3, HEADS, -1)).transpose(-2, -4)
        # with more than four axes, as in a population, the fused kernel would not be taken
        query, key, value = projected.flatten(0, -5).unbind(-3)  # [batch, heads, tokens, features / heads]
        mixed = functional.scaled_dot_product_attention(query, key, value)
        return self.out(mixed.transpose(-3, -2).reshape(x.shape))


class Block(nn.Module):
    stackable = True

    def __init__(self, features: int, dropout: float) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(features)
        self.attention = Attention(features)
        self.norm2 = nn.LayerNorm(features)
        self.widen = nn.Linear(features, WIDENING * features)
        self.narrow = nn.Linear(WIDENING * features, features)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:  # [..., tokens, features]
        x = x + self.dropout(self.attention(self.norm1(x)))
        return x + self.dropout(self.narrow(functional.gelu(self.widen(self.norm2(x)))))


class Vit(nn.Module):
    stackable = True
    places: Tensor

    def __init__(self, architecture: Architecture, task: Task) -> None:
        super().__init__()
        hidden, patch = architecture.hidden, 4 if task.height >= 16 else 2
        tokens = (task.height // patch) * (task.width // patch)
        self.patches = nn.Conv2d(task.channels, hidden, patch, stride=patch)
        self.register_buffer("places", encoded_places(tokens, hidden), persistent=False)
        self.blocks = nn.ModuleList(Block(hidden, architecture.dropout) for _ in range(architecture.depth))
        self.head = nn.Linear(hidden, task.classes)

    def forward(self, x: Tensor) -> Tensor:  # [..., channels, height, width] -> [..., classes]
        x = (self.patches(x).flatten(-2).mT + self.places).contiguous()  # or each block would copy it
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(-2))


def encoded_places(tokens: int, features: int) -> Tensor:  # [tokens, features]
    """Sines and cosines of the place in raster order, as in the first transformer."""
    slowness = 10_000 ** (torch.arange(0, features, 2) / features)
    angles = torch.arange(tokens)[:, None] / slowness
    return torch.cat([angles.sin(), angles.cos()], -1)


VIT = Family(
    "vit",
    hidden=Choice(32, 48),
    depth=Choice(2, 3),
    linear_layers=Choice(1),
    norm=Choice("layer"),
    dropout=Uniform(0, 0.25),
    build=Vit,
)
