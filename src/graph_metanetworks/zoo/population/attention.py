"""Attention in a population, gradients written by hand: sets of a few tokens, and very many of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from graph_metanetworks.zoo.population.linear import Linear


class StackedAttention(nn.Module):
    def __init__(self, layers: Sequence[Any]) -> None:
        super().__init__()
        self.projections = Linear([layer.projections for layer in layers])
        self.out = Linear([layer.out for layer in layers])
        self.heads = layers[0].heads

    def forward(self, x: Tensor) -> Tensor:  # [G, batch, tokens, features]
        return self.out(Attended.apply(self.projections(x).unflatten(-1, (3, self.heads, -1))))


class Attended(torch.autograd.Function):
    """From query, key and value `[..., tokens, 3, heads, features]` to `[..., tokens, heads * features]`."""

    @staticmethod
    def forward(ctx: Any, projected: Tensor) -> Tensor:
        ctx.shape = projected.shape
        *_, tokens, _, heads, features = projected.shape
        flat = projected.view(-1, tokens, 3, heads, features).permute(2, 0, 3, 1, 4)
        query, key, value = flat.reshape(3, -1, tokens, features)  # [all heads, tokens, features]
        shares = torch.bmm(query, key.mT).mul_(features**-0.5).softmax(-1)
        ctx.save_for_backward(query, key, value, shares)
        mixed = torch.bmm(shares, value).view(-1, heads, tokens, features)
        return mixed.transpose(1, 2).reshape(*projected.shape[:-3], heads * features)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        query, key, value, shares = ctx.saved_tensors
        *_, tokens, _, heads, features = ctx.shape
        mixed = gradients[0].view(-1, tokens, heads, features).transpose(1, 2).reshape(query.shape)
        scores = torch._softmax_backward_data(torch.bmm(mixed, value.mT), shares, -1, shares.dtype)
        scores.mul_(features**-0.5)
        found = torch.stack(
            [torch.bmm(scores, key), torch.bmm(scores.mT, query), torch.bmm(shares.mT, mixed)]
        )
        return found.view(3, -1, heads, tokens, features).permute(1, 3, 0, 2, 4).reshape(ctx.shape)
