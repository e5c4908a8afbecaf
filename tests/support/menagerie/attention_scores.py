"""Attention by hand with other scores: rotary, linear, normalised, and from learned latents."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .attention import HEADS, WIDTH, attention, split_heads, transformer
from .inputs import inputs, normal


@transformer("attention-rotary")
class RotaryAttention(nn.Module):
    """Queries and keys rotated by their position, https://arxiv.org/abs/2104.09864."""

    def __init__(self, head_width: int = 4) -> None:
        super().__init__()
        self.query = nn.Linear(WIDTH, HEADS * head_width, bias=False)
        self.key = nn.Linear(WIDTH, HEADS * head_width, bias=False)
        self.value = nn.Linear(WIDTH, HEADS * head_width, bias=False)
        self.project = nn.Linear(HEADS * head_width, WIDTH, bias=False)
        frequencies = 1.0 / 10 ** torch.arange(0, 1, 2 / head_width)
        self.register_buffer("frequencies", frequencies, persistent=False)

    def rotate(self, x: Tensor) -> Tensor:  # [B, HEADS, N, head_width], same
        angles = torch.arange(x.shape[2], device=x.device)[:, None] * self.frequencies
        cosine, sine = angles.cos().repeat(1, 2), angles.sin().repeat(1, 2)
        first, second = x.chunk(2, dim=-1)
        return x * cosine + torch.cat([-second, first], dim=-1) * sine

    def forward(self, x: Tensor) -> Tensor:  # [B, N, WIDTH] -> [B, N, WIDTH]
        query = self.rotate(split_heads(self.query(x), HEADS))
        key = self.rotate(split_heads(self.key(x), HEADS))
        value = split_heads(self.value(x), HEADS)
        x = F.scaled_dot_product_attention(query, key, value)
        return self.project(x.transpose(1, 2).flatten(2))


@transformer("attention-linear")
class LinearAttention(nn.Module):
    """Softmax replaced by the feature map elu + 1, https://arxiv.org/abs/2006.16236."""

    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Linear(WIDTH, 2 * 4)
        self.key = nn.Linear(WIDTH, 2 * 4)
        self.value = nn.Linear(WIDTH, 2 * 5)
        self.project = nn.Linear(2 * 5, WIDTH)

    def forward(self, x: Tensor) -> Tensor:  # [B, N, WIDTH] -> [B, N, WIDTH]
        query = F.elu(split_heads(self.query(x), 2)) + 1
        key = F.elu(split_heads(self.key(x), 2)) + 1
        state = key.transpose(-2, -1) @ split_heads(self.value(x), 2)
        total = query @ key.sum(dim=-2, keepdim=True).transpose(-2, -1)
        return self.project((query @ state / total).transpose(1, 2).flatten(2))


@transformer("attention-query-key-norm")
class NormalisedAttention(nn.Module):
    """Queries and keys on the unit sphere, with a learned temperature for each head."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.query_norm = nn.RMSNorm(WIDTH // HEADS)
        self.temperature = nn.Parameter(torch.ones(HEADS, 1, 1))
        self.project = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:  # [B, N, WIDTH] -> [B, N, WIDTH]
        query, key, value = (split_heads(part, HEADS) for part in self.qkv(x).chunk(3, dim=-1))
        scores = self.query_norm(query) @ F.normalize(key, dim=-1).mT * self.temperature
        return self.project((scores.softmax(-1) @ value).transpose(1, 2).flatten(2))


@attention("perceiver", example=inputs(normal(2, 7, 5)))
class Perceiver(nn.Module):
    """Learned latents that read the inputs and are decoded by an output query."""

    def __init__(self, latents: int = 4, width: int = 10) -> None:
        super().__init__()
        self.latents = nn.Parameter(torch.randn(latents, width))
        self.answer = nn.Parameter(torch.randn(1, width))
        self.key = nn.Linear(5, 8, bias=False)
        self.value = nn.Linear(5, width)
        self.query = nn.Linear(width, 8)
        self.process = nn.Sequential(nn.Linear(width, 13), nn.GELU(), nn.Linear(13, width))
        self.head = nn.Linear(width, 3)

    def forward(self, x: Tensor) -> Tensor:  # [B, N, 5] -> [B, 3]
        latents = self.latents.expand(len(x), -1, -1)
        weights = (self.query(latents) @ self.key(x).mT).softmax(-1)
        latents = latents + weights @ self.value(x)
        latents = latents + self.process(latents)
        weights = (self.answer @ latents.mT).softmax(-1)
        return self.head((weights @ latents).squeeze(1))
