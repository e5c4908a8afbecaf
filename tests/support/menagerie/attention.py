"""Attention by hand, inside a small transformer: packed, by einsum, and with shared keys."""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .architecture import architecture
from .inputs import inputs, normal

attention = partial(architecture, family="attention", example=inputs(normal(2, 6, 5)))

WIDTH, HEADS = 12, 3


class Transformer(nn.Module):
    """Two pre-norm blocks of the given attention, with an embedding and a head."""

    def __init__(self, attend: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.embed = nn.Linear(5, WIDTH)
        self.attends = nn.ModuleList(attend() for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(4))
        self.mlps = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, 20), nn.GELU(), nn.Linear(20, WIDTH)) for _ in range(2)
        )
        self.head = nn.Linear(WIDTH, 4)

    def forward(self, x: Tensor) -> Tensor:  # [B, N, 5] -> [B, N, 4]
        x = self.embed(x)
        norms = iter(self.norms)
        for attend, mlp in zip(self.attends, self.mlps, strict=True):
            x = x + attend(next(norms)(x))
            x = x + mlp(next(norms)(x))
        return self.head(x)


def transformer(name: str) -> Callable[[type[nn.Module]], type[nn.Module]]:
    """Register a Transformer of the decorated attention."""

    def register(attend: type[nn.Module]) -> type[nn.Module]:
        attention(name)(partial(Transformer, attend))
        return attend

    return register


def split_heads(x: Tensor, heads: int) -> Tensor:  # [B, N, heads * d] -> [B, heads, N, d]
    """Move the heads out of the channel axis."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


@transformer("attention-packed-qkv")
class PackedAttention(nn.Module):
    """Query, key and value from one linear layer, split as in GPT-2, and causal."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.project = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:  # [B, N, WIDTH] -> [B, N, WIDTH]
        query, key, value = (split_heads(part, HEADS) for part in self.qkv(x).split(WIDTH, dim=-1))
        x = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.project(x.transpose(1, 2).flatten(2))


@transformer("attention-einsum")
class EinsumAttention(nn.Module):
    """Weights with an axis for the heads, contracted by einsum, with a causal mask."""

    def __init__(self, head_width: int = 5) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.randn(HEADS, WIDTH, head_width))
        self.key = nn.Parameter(torch.randn(HEADS, WIDTH, head_width))
        self.value = nn.Parameter(torch.randn(HEADS, WIDTH, head_width + 2))
        self.output = nn.Parameter(torch.randn(HEADS, head_width + 2, WIDTH))

    def forward(self, x: Tensor) -> Tensor:  # [B, N, WIDTH] -> [B, N, WIDTH]
        query = torch.einsum("bnc,hcd->bhnd", x, self.query)
        key = torch.einsum("bnc,hcd->bhnd", x, self.key)
        value = torch.einsum("bnc,hcd->bhnd", x, self.value)
        scores = torch.einsum("bhnd,bhmd->bhnm", query, key)
        future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).triu(1)
        weights = scores.masked_fill(future, -torch.inf).softmax(-1)
        return torch.einsum("bhnm,bhmd,hdc->bnc", weights, value, self.output)


class GroupedQueryAttention(nn.Module):
    """Fewer heads of key and value than of query, https://arxiv.org/abs/2305.13245."""

    def __init__(self, query_heads: int = 4, heads: int = 2, head_width: int = 3) -> None:
        super().__init__()
        self.query_heads, self.heads = query_heads, heads
        self.query = nn.Linear(WIDTH, query_heads * head_width)
        self.key = nn.Linear(WIDTH, heads * head_width, bias=False)
        self.value = nn.Linear(WIDTH, heads * head_width)
        self.project = nn.Linear(query_heads * head_width, WIDTH)

    def forward(self, x: Tensor) -> Tensor:  # [B, N, WIDTH] -> [B, N, WIDTH]
        repeats = self.query_heads // self.heads
        query = split_heads(self.query(x), self.query_heads)
        key = split_heads(self.key(x), self.heads).repeat_interleave(repeats, dim=1)
        value = split_heads(self.value(x), self.heads).repeat_interleave(repeats, dim=1)
        weights = (query @ key.transpose(-2, -1)).softmax(-1)
        return self.project((weights @ value).transpose(1, 2).flatten(2))


attention("attention-grouped-query")(partial(Transformer, GroupedQueryAttention))
attention("attention-multi-query")(
    partial(Transformer, partial(GroupedQueryAttention, query_heads=3, heads=1, head_width=4))
)
