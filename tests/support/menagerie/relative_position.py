"""Attention on a map whose scores depend on relative positions, by tables for rows and for columns.

Each table has a vector for every distance, and a query meets the vector of its distance from a key:
https://arxiv.org/abs/2112.01526 (MViTv2), https://arxiv.org/abs/2203.16527 (ViTDet),
https://arxiv.org/abs/2304.02643 (Segment Anything).
"""

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .architecture import architecture
from .attention import HEADS, WIDTH, split_heads, transformer
from .inputs import inputs, normal

relative = partial(architecture, family="position", example=inputs(normal(2, 4, 4, 3)))


def rows_for(table: Tensor, queries: int, keys: int) -> Tensor:
    """Look up the vector of each distance along one side of the map. [L, d] -> [queries, keys, d]

    A table for a map of another size is interpolated first.
    """
    distances = 2 * max(queries, keys) - 1
    if len(table) != distances:
        table = F.interpolate(table.T[None], size=distances, mode="linear")[0].T
    query = torch.arange(queries)[:, None] * max(keys / queries, 1.0)
    key = torch.arange(keys)[None, :] * max(queries / keys, 1.0)
    return table[(query - key + (keys - 1) * max(queries / keys, 1.0)).long()]


class MultiscaleAttention(nn.Module):
    """Attention on a map. Queries, keys and values may be pooled by depthwise convolutions first.

    Args:
        width, heads, side: channels, heads, and height and width of the map.
        query_stride, key_stride: how much queries, and keys with values, are pooled; None for not at all.
        distances: length of the tables; by default that which the map needs.
        token: whether a class token, which has no position, comes before the map.
        fused: whether positions are the mask of `scaled_dot_product_attention`.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        side: int,
        query_stride: int | None = None,
        key_stride: int | None = None,
        *,
        distances: int | None = None,
        token: bool = False,
        fused: bool = False,
    ) -> None:
        super().__init__()
        self.heads, self.side, self.token, self.fused = heads, side, int(token), fused
        depth = width // heads
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        strides = {"query": query_stride, "key": key_stride, "value": key_stride}
        self.pools = nn.ModuleDict(
            {
                name: nn.Conv2d(depth, depth, 3, stride, padding=1, groups=depth, bias=False)
                for name, stride in strides.items()
                if stride is not None
            }
        )
        self.norms = nn.ModuleDict({name: nn.LayerNorm(depth) for name in self.pools})
        self.queries, self.keys = (side // (stride or 1) for stride in (query_stride, key_stride))
        distances = distances or 2 * max(self.queries, self.keys) - 1
        self.rows = nn.Parameter(torch.randn(distances, depth))
        self.columns = nn.Parameter(torch.randn(distances, depth))

    def pool(self, x: Tensor, name: str) -> Tensor:  # [B, heads, N, d] -> [B, heads, M, d]
        if name not in self.pools:
            return x
        token, places = x[:, :, : self.token], x[:, :, self.token :]
        places = places.reshape(-1, self.side, self.side, x.shape[-1]).permute(0, 3, 1, 2)
        places = self.pools[name](places)  # the heads are in the batch
        places = places.reshape(*x.shape[:2], x.shape[-1], -1).transpose(2, 3)
        return self.norms[name](torch.cat([token, places], dim=2) if self.token else places)

    def positions(self, query: Tensor) -> tuple[Tensor, Tensor]:
        """Return what rows and columns add to the scores. [B, heads, N, d] -> [B, heads, h, w, h, 1], ..."""
        rows, columns = (rows_for(table, self.queries, self.keys) for table in (self.rows, self.columns))
        query = query[:, :, self.token :].unflatten(2, (self.queries, self.queries))
        by_row = torch.einsum("byhwc,hkc->byhwk", query, rows)
        by_column = torch.einsum("byhwc,wkc->byhwk", query, columns)
        return by_row[..., :, None], by_column[..., None, :]

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        by_row, by_column = self.positions(query)
        places, keys = self.queries**2, self.keys**2
        if self.fused:
            mask = (by_row + by_column).reshape(*query.shape[:2], places, keys)
            return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        scores = (query * query.shape[-1] ** -0.5) @ key.transpose(-2, -1)
        of_places = scores[:, :, self.token :, self.token :]
        split = of_places.unflatten(3, (self.keys, self.keys)).unflatten(2, (self.queries, self.queries))
        summed = (split + by_row + by_column).reshape(of_places.shape)
        if self.token:
            scores[:, :, 1:, 1:] = summed
        else:
            scores = summed
        return scores.softmax(-1) @ value

    def forward(self, x: Tensor) -> Tensor:  # [B, N, width] -> [B, M, width]
        query, key, value = (
            self.pool(split_heads(part, self.heads), name)
            for part, name in zip(self.qkv(x).chunk(3, -1), ("query", "key", "value"), strict=True)
        )
        return self.project(self.attend(query, key, value).transpose(1, 2).flatten(2))


class MapTransformer(nn.Module):
    """One block of the given attention on an image of 4 x 4 pixels, with a head on each place."""

    def __init__(self, attend: nn.Module, width: int, token: bool = False) -> None:
        super().__init__()
        self.embed, self.attend, self.norm = nn.Linear(3, width), attend, nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 14), nn.GELU(), nn.Linear(14, width))
        self.token = nn.Parameter(torch.randn(1, 1, width)) if token else None
        self.head = nn.Linear(width, 4)

    def forward(self, image: Tensor) -> Tensor:  # [B, h, w, 3] -> [B, M, 4]
        x = self.embed(image.flatten(1, 2))
        if self.token is not None:
            x = torch.cat([self.token.expand(len(x), -1, -1), x], dim=1)
        attended = self.attend(self.norm(x))
        x = x + attended if attended.shape == x.shape else attended
        return self.head(x + self.mlp(x))


@relative("decomposed-positions")
def plain() -> nn.Module:
    return MapTransformer(MultiscaleAttention(12, 3, 4), 12)


@relative("decomposed-positions-fused")
def fused() -> nn.Module:
    return MapTransformer(MultiscaleAttention(12, 3, 4, fused=True), 12)


@relative("decomposed-positions-interpolated")
def interpolated() -> nn.Module:
    return MapTransformer(MultiscaleAttention(12, 3, 4, distances=9), 12)


@relative("decomposed-positions-pooled")
def pooled() -> nn.Module:
    return MapTransformer(MultiscaleAttention(12, 3, 4, 2, 4), 12)


@relative("decomposed-positions-pooled-keys")
def pooled_keys() -> nn.Module:
    return MapTransformer(MultiscaleAttention(12, 3, 4, 1, 2), 12)


@relative("decomposed-positions-token")
def token() -> nn.Module:
    return MapTransformer(MultiscaleAttention(12, 3, 4, 1, 2, token=True), 12, token=True)


@transformer("attention-skewed-positions")
class SkewedAttention(nn.Module):
    """A vector for each distance, brought into place by a skew, https://arxiv.org/abs/1809.04281."""

    def __init__(self, length: int = 6) -> None:
        super().__init__()
        self.qkv, self.project = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.distances = nn.Parameter(torch.randn(length, WIDTH // HEADS))

    def skewed(self, by_distance: Tensor) -> Tensor:  # [B, heads, N, N], same
        batch, heads, length, _ = by_distance.shape
        return F.pad(by_distance, (1, 0)).reshape(batch, heads, length + 1, length)[:, :, 1:]

    def forward(self, x: Tensor) -> Tensor:  # [B, N, WIDTH] -> [B, N, WIDTH]
        query, key, value = (split_heads(part, HEADS) for part in self.qkv(x).chunk(3, dim=-1))
        scores = query @ key.mT + self.skewed(query @ self.distances.T)
        masked = scores.masked_fill(torch.ones(scores.shape[-2:]).triu(1).bool(), float("-inf"))
        return self.project((masked.softmax(-1) @ value).transpose(1, 2).flatten(2))
