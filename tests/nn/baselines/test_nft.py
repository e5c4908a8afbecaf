"""Neural functional transformers: the fast form of a block against the plain one."""

import torch
import torch.nn.functional as F
from torch import Tensor

from graph_metanetworks.nn.baselines.nft import NftBlock, WeightAttention
from support.tiny_chains import Tensors, TinyChain

CHAIN = TinyChain((2, 4, 3, 2))
HIDDEN, HEADS = 8, 2


def states() -> Tensors:
    torch.manual_seed(0)
    return CHAIN.tensors(torch.randn(5, CHAIN.numel, HIDDEN, dtype=torch.float64))


def plain_attention(attention: WeightAttention, tensors: Tensors) -> Tensors:
    """Attend group by group, with one token for each vector along it; then among the means of projections."""
    projected = [attention.project(x) for x in tensors]

    def attended(tokens: Tensor) -> Tensor:  # [n, tokens, neurons, 3 hidden] -> [n, tokens, neurons, hidden]
        parts = tokens.unflatten(-1, (3, HEADS, -1)).permute(3, 0, 4, 1, 2, 5).flatten(4)
        found = F.scaled_dot_product_attention(*parts.unbind(0)).unflatten(-1, (tokens.shape[2], -1))
        return found.permute(0, 2, 3, 1, 4).flatten(3)

    means = torch.stack([x.flatten(1, -2).mean(1) for x in projected], dim=1)[:, :, None]
    results = [
        torch.zeros_like(x) + own.view(len(x), *[1] * (x.dim() - 2), -1)
        for x, own in zip(tensors, attended(means).unbind(1), strict=True)
    ]
    for group in range(4):
        own = [number for number, slot in enumerate(attention.slots) if group in slot.groups]
        axes = [1 + attention.slots[number].groups.index(group) for number in own]
        tokens = [projected[number].movedim(axis, -2) for number, axis in zip(own, axes, strict=True)]
        tokens = [x if x.dim() == 4 else x[:, None] for x in tokens]
        parts = attended(torch.cat(tokens, dim=1)).split([x.shape[1] for x in tokens], dim=1)
        for number, axis, part in zip(own, axes, parts, strict=True):
            part = part if tensors[number].dim() == 4 else part[:, 0]
            results[number] = results[number] + part.movedim(-2, axis)
    return results


def assert_equal(found: Tensors, expected: Tensors) -> None:
    for own, other in zip(found, expected, strict=True):
        assert torch.allclose(own, other, atol=1e-10)


def test_vectors_along_each_group_and_means_of_tensors_attend() -> None:
    attention = WeightAttention(CHAIN.form.slots, HIDDEN, HEADS).double()
    tensors = states()
    assert_equal(attention(tensors), plain_attention(attention, tensors))
    scale = torch.randn(HIDDEN, dtype=torch.float64)
    assert_equal(attention(tensors, scale), plain_attention(attention, [scale * x for x in tensors]))


def test_scales_of_norms_are_in_the_weights() -> None:
    block, tensors = NftBlock(CHAIN.form.slots, HIDDEN, HEADS).double(), states()
    for norm in (block.first, block.second):
        torch.nn.init.normal_(norm.weight)
    after = [x + y for x, y in zip(tensors, block.attention([block.first(x) for x in tensors]), strict=True)]
    assert_equal(block(tensors), [x + block.each(block.second(x)) for x in after])
