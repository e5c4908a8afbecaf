"""Channels split into heads [B, 2, 4]: what mixes heads must tie the dimensions within them."""

import torch
import torch.nn.functional as F
from torch import Tensor

from .case import Case


def split(h: Tensor) -> Tensor:
    return h.view(4, 2, 4)


SWAP = torch.tensor([1, 0])
EVERYWHERE = SWAP.view(1, 2, 1).expand(4, 2, 4)

HEADS: dict[str, Case] = {
    "there and back": Case(lambda h: h.unflatten(1, (4, 2)).flatten(1)),
    "softmax within": Case(lambda h: split(h).softmax(2), "2 4"),
    "softmax across": Case(lambda h: split(h).softmax(1), "2 4"),
    "softmax across, summed": Case(lambda h: split(h).softmax(1).sum(2), "2 4"),
    "log softmax across": Case(lambda h: split(h).log_softmax(1), "2 4"),
    "softmax at three levels, outer": Case(lambda h: h.view(4, 2, 2, 2).softmax(1), "2 2 2"),
    "softmax at three levels, middle": Case(lambda h: h.view(4, 2, 2, 2).softmax(2), "2 2 2"),
    "softmax across samples and heads": Case(lambda h: h.reshape(8, 4).softmax(0).reshape(4, 8)),
    "cumsum across": Case(lambda h: split(h).cumsum(1), "4"),
    "cummax across": Case(lambda h: split(h).cummax(1).values, "4"),
    "sort across": Case(lambda h: split(h).sort(1).values),
    "roll across": Case(lambda h: split(h).roll(1, 1)),
    "flip across": Case(lambda h: split(h).flip(1)),
    "flip across, added": Case(lambda h: split(h).flip(1) + split(h)),
    "index across": Case(lambda h: split(h)[:, SWAP]),
    "index across, added": Case(lambda h: split(h)[:, SWAP] + split(h)),
    "gather across": Case(lambda h: split(h).gather(1, EVERYWHERE)),
    "scatter across": Case(lambda h: torch.zeros_like(split(h)).scatter(1, EVERYWHERE, split(h))),
    "scatter_add across": Case(lambda h: h.new_zeros(4, 1, 4).scatter_add(1, EVERYWHERE * 0, split(h))),
    "index_add across": Case(lambda h: h.new_zeros(4, 1, 4).index_add(1, SWAP * 0, split(h))),
    "index_copy across": Case(lambda h: h.new_zeros(4, 2, 4).index_copy(1, SWAP, split(h))),
    "index_put across": Case(
        lambda h: h.new_zeros(4, 1, 4).index_put(
            (torch.arange(4)[:, None], SWAP[None] * 0), split(h), accumulate=True
        )
    ),
    "sum across": Case(lambda h: split(h).sum(1), "2 4"),
    "max across": Case(lambda h: split(h).max(1).values),
    "arg max across": Case(lambda h: split(h).argmax(1)),
    "max within": Case(lambda h: split(h).amax(2), "2 4"),
    "normalised across": Case(lambda h: F.normalize(split(h), dim=1), "2 4"),
    "centred across": Case(lambda h: split(h) - split(h).mean(1, keepdim=True), "2 4"),
    "gated across": Case(lambda h: F.glu(split(h), 1), "4"),
    "layer norm across": Case(lambda h: F.layer_norm(split(h).mT, (2,)), "2 4"),
    "group norm": Case(lambda h: F.group_norm(h, 2), "2 4"),
    "group norm, shuffled": Case(lambda h: F.group_norm(h.view(4, 4, 2).mT.reshape(4, 8), 2)),
    "group norm across": Case(lambda h: F.group_norm(split(h).mT, 2)),
    "convolved across": Case(lambda h: F.conv1d(split(h).mT, h.new_ones(3, 4, 2)), "4 3"),
    "convolved across, depthwise": Case(lambda h: F.conv1d(split(h).mT, h.new_ones(4, 1, 2), groups=4), "4"),
    "convolved within": Case(lambda h: F.conv1d(split(h), h.new_ones(3, 2, 2)), "2 3"),
    "pooled across": Case(lambda h: F.avg_pool1d(split(h).mT, 2), "4"),
    "stretched across": Case(lambda h: F.interpolate(split(h).mT, scale_factor=2)),
    "padded across": Case(lambda h: F.pad(split(h), (0, 0, 1, 0))),
    "padded across, summed": Case(lambda h: F.pad(split(h), (0, 0, 1, 0)).sum(1)),
    "repeated": Case(lambda h: split(h).repeat(1, 2, 1)),
    "each repeated": Case(lambda h: split(h).repeat_interleave(2, 1)),
    "with one of them": Case(lambda h: torch.cat([split(h), split(h)[:, :1]], 1)),
    "rotated and added": Case(lambda h: torch.cat([split(h)[:, 1:], split(h)[:, :1]], 1) + split(h)),
    "one added to the other": Case(lambda h: split(h)[:, 0] + split(h)[:, 1]),
    "one of them alone": Case(lambda h: split(h)[:, 0] * 3, "4 4"),
    "a part added to all": Case(lambda h: h.view(4, 4, 2) + h[:, :2].view(4, 1, 2)),
    "product of both": Case(lambda h: torch.einsum("bhd,bhe->bde", split(h), split(h)), "2 4"),
    "all products": Case(lambda h: torch.einsum("bhd,bge->bhgde", split(h), split(h)), None),
    "products within": Case(lambda h: torch.einsum("bhd,bgd->bhgd", split(h), split(h)), "2 4"),
    "scores of samples": Case(lambda h: torch.einsum("bhd,chd->bhc", split(h), split(h)), "2 4"),
    "a product of two splits": Case(lambda h: torch.bmm(h.view(4, 2, 4), h.view(4, 4, 2))),
    "a product plus a split": Case(
        lambda h: torch.baddbmm(split(h), split(h), h[:, :4, None] * h[:, None, 4:])
    ),
    "transposed and split anew": Case(lambda h: h.view(4, 2, 2, 2).transpose(1, 2).reshape(4, 2, 4).sum(1)),
    "transposed and split anew, largest": Case(
        lambda h: h.view(4, 2, 2, 2).transpose(1, 3).reshape(4, 2, 4).cumsum(0).amax(2)
    ),
    "moved and added": Case(lambda h: h.view(4, 2, 2, 2).movedim(1, 3).reshape(4, 8) + h),
    "shuffled and added": Case(lambda h: F.channel_shuffle(h.view(4, 8, 1), 2)[..., 0] + h),
    "turned by ninety degrees": Case(lambda h: torch.rot90(h.view(4, 4, 2), 1, (1, 2))),
    "summed over two of three": Case(lambda h: h.view(4, 2, 2, 2).mean((1, 3)), "2 2 2"),
    "samples split too": Case(lambda h: h.view(-1).view(8, 4).t().reshape(4, 8)),
    "samples summed in pairs": Case(lambda h: h.reshape(2, 16).sum(0).expand(4, 16)),
    "cross products": Case(lambda h: torch.cat([torch.linalg.cross(h[:, :3], h[:, 3:6]), h[:, 6:]], 1), "2"),
    "pixels": Case(lambda h: F.pixel_shuffle(h.view(4, 8, 1, 1), 2)),
}
