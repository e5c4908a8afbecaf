"""Networks that begin by looking tokens up."""

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .architecture import architecture
from .inputs import fixed, inputs, normal, tokens

embedding = partial(architecture, family="embedding", example=inputs(tokens(2, 6, 17)))


class Bag(nn.Module):
    """nn.EmbeddingBag and a perceptron."""

    def __init__(self, mode: str) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(17, 8, mode=mode)
        self.inner = nn.Linear(8, 11)
        self.head = nn.Linear(11, 3)

    def forward(self, *arguments: Tensor | None) -> Tensor:  # [B, N] or [N] with offsets [B]
        return self.head(torch.tanh(self.inner(self.bag(*arguments))))


embedding("embedding-bag-mean")(partial(Bag, "mean"))
embedding("embedding-bag-max")(partial(Bag, "max"))
embedding(
    "embedding-bag-weighted-offsets",
    example=inputs(
        lambda generator: torch.randperm(17, generator=generator)[:9],
        fixed(torch.tensor([0, 4])),
        normal(9),
    ),
)(partial(Bag, "sum"))


@embedding("sinusoidal-positions")
class SinusoidalPositions(nn.Module):
    """Fixed positions, a persistent buffer, added to a padded embedding with a scale."""

    def __init__(self, width: int = 10, length: int = 8) -> None:
        super().__init__()
        self.embed = nn.Embedding(17, width, padding_idx=0)
        angles = torch.arange(length)[:, None] / 10 ** (torch.arange(width) / width)
        even = torch.arange(width) % 2 == 0
        self.register_buffer("positions", torch.where(even, angles.sin(), angles.cos()))
        self.inner = nn.Linear(width, 13)
        self.head = nn.Linear(13, 3)

    def forward(self, tokens: Tensor) -> Tensor:  # [B, N] -> [B, N, 3]
        x = self.embed(tokens) * self.embed.embedding_dim**0.5
        return self.head(F.gelu(self.inner(x + self.positions[: tokens.shape[1]])))


@embedding("text-convolution")
class TextConvolution(nn.Module):
    """Embedded tokens, convolutions of several widths, and the largest of each channel."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(17, 7)
        self.convolutions = nn.ModuleList(
            nn.Conv1d(7, channels, width) for channels, width in [(5, 2), (6, 3), (4, 4)]
        )
        self.head = nn.Linear(5 + 6 + 4, 3)

    def forward(self, tokens: Tensor) -> Tensor:  # [B, N] -> [B, 3]
        x = self.embed(tokens).transpose(1, 2)
        maxima = [convolution(x).max(dim=2).values.tanh() for convolution in self.convolutions]
        return self.head(torch.cat(maxima, dim=1))


@embedding("category-features", example=inputs(tokens(15, 2, 6), normal(15, 3)))
class Tabular(nn.Module):
    """Two category embeddings concatenated with numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.embeds = nn.ModuleList([nn.Embedding(6, 4), nn.Embedding(6, 5)])
        self.norm = nn.BatchNorm1d(3)
        self.inner = nn.Linear(4 + 5 + 3, 11)
        self.head = nn.Linear(11, 2)

    def forward(self, categories: Tensor, numbers: Tensor) -> Tensor:  # [B, 2], [B, 3] -> [B, 2]
        looked_up = [embed(column) for embed, column in zip(self.embeds, categories.T, strict=True)]
        return self.head(F.relu(self.inner(torch.cat([*looked_up, self.norm(numbers)], dim=1))))
