"""Vision transformers (Dosovitskiy et al., 2021), with a convolution as patch embedding."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from graph_metanetworks.zoo.draws import Choice, Uniform
from graph_metanetworks.zoo.families.family import ClassifierArchitecture, Family, ImageSpec

HEADS = 2
EXPANSION = 4  # width of the hidden layer of the MLP, relative to the features


class Attention(nn.Module):
    stackable = True

    def __init__(self, features: int) -> None:
        super().__init__()
        self.projections = nn.Linear(features, 3 * features)
        self.out = nn.Linear(features, features)

    def forward(self, x: Tensor) -> Tensor:  # [..., tokens, features]
        projected = self.projections(x).unflatten(-1, (3, HEADS, -1)).transpose(-2, -4)
        # flattened, because the fused kernel is not used with more than four axes, as in a population
        query, key, value = projected.flatten(0, -5).unbind(-3)  # [batch, heads, tokens, features / heads]
        mixed = functional.scaled_dot_product_attention(query, key, value)
        return self.out(mixed.transpose(-3, -2).reshape(x.shape))


class TransformerBlock(nn.Module):
    stackable = True

    def __init__(self, features: int, dropout: float) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(features)
        self.attention = Attention(features)
        self.norm2 = nn.LayerNorm(features)
        self.widen = nn.Linear(features, EXPANSION * features)
        self.narrow = nn.Linear(EXPANSION * features, features)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:  # [..., tokens, features]
        x = x + self.dropout(self.attention(self.norm1(x)))
        return x + self.dropout(self.narrow(functional.gelu(self.widen(self.norm2(x)))))


class Vit(nn.Module):
    stackable = True
    positions: Tensor

    def __init__(self, architecture: ClassifierArchitecture, spec: ImageSpec) -> None:
        super().__init__()
        hidden, patch = architecture.hidden, 4 if spec.height >= 16 else 2
        tokens = (spec.height // patch) * (spec.width // patch)
        self.patches = nn.Conv2d(spec.channels, hidden, patch, stride=patch)
        self.register_buffer("positions", positional_encoding(tokens, hidden), persistent=False)
        self.blocks = nn.ModuleList(
            TransformerBlock(hidden, architecture.dropout) for _ in range(architecture.depth)
        )
        self.head = nn.Linear(hidden, spec.classes)

    def forward(self, x: Tensor) -> Tensor:  # [..., channels, height, width] -> [..., classes]
        x = (
            self.patches(x).flatten(-2).mT + self.positions
        ).contiguous()  # otherwise each block would copy it
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(-2))


def positional_encoding(tokens: int, features: int) -> Tensor:  # [tokens, features]
    """Return the sines and cosines of the position in raster order, as in the original transformer."""
    wavelengths = 10_000 ** (torch.arange(0, features, 2) / features)
    angles = torch.arange(tokens)[:, None] / wavelengths
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
