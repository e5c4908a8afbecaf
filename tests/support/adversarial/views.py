"""Views, slices, joins, reductions and products of hidden channels [B, 8]."""

import torch
import torch.nn.functional as F

from .case import Case

VIEWS: dict[str, Case] = {
    # ---------------------------------------------------------------- slices and joins
    "overlapping slices": Case(lambda h: torch.cat([h[:, :5], h[:, 3:]], 1), "3 2 3"),
    "overlapping slices added": Case(lambda h: h[:, :5] + h[:, 3:], None),
    "a channel against the others": Case(lambda h: h[:, :1] + h, "7"),
    "every second": Case(lambda h: h[:, ::2] + h[:, 1::2], "4"),
    "every third": Case(lambda h: h[:, ::3]),
    "three chunks in reverse": Case(lambda h: torch.cat(h.chunk(3, 1)[::-1], 1), "3 3 2"),
    "swapped halves": Case(lambda h: torch.cat([h[:, 4:], h[:, :4]], 1) + h, "4"),
    "swapped at an odd place": Case(lambda h: torch.cat([h[:, 3:], h[:, :3]], 1) + h, ""),
    "twice, sliced across": Case(lambda h: torch.cat([h, h], 1)[:, 2:10], "2 6"),
    "with a part of itself": Case(lambda h: torch.cat([h, h[:, :3]], 1), "3 5"),
    "two cuts that differ": Case(
        lambda h: torch.cat([h[:, :3], h[:, 3:] * 2], 1) + torch.cat([h[:, :5], h[:, 5:] * 2], 1), "3 2 3"
    ),
    "joins of joins": Case(
        lambda h: torch.cat([torch.cat([h[:, :2], h[:, 6:]], 1), h[:, 2:6]], 1).view(4, 2, 4).sum(1)
    ),
    "each channel on its own": Case(lambda h: torch.stack([h[:, i] for i in range(8)], 1)),
    "each channel, reversed": Case(lambda h: torch.stack([h[:, 7 - i] for i in range(8)], 1) + h, ""),
    "stacked with itself": Case(lambda h: torch.stack([h, h * 2, h.sin()], 1), "8"),
    "interleaved with itself": Case(lambda h: torch.stack([h, h * 2], -1).reshape(4, 16), "8"),
    "stacked halves summed": Case(lambda h: torch.stack([h[:, :4], h[:, 4:]], 1).sum(1)),
    "zeros beside": Case(lambda h: torch.cat([h, h * 0], 1) + torch.cat([torch.zeros(4, 8), h], 1), "8"),
    "zeros beside, shifted": Case(
        lambda h: torch.cat([h, torch.zeros(4, 3)], 1) + torch.cat([torch.zeros(4, 3), h], 1)
    ),
    "padded": Case(lambda h: F.pad(h, (1, 2))),
    "padded, cut and added": Case(lambda h: F.pad(h, (1, 1))[:, :8] + h, ""),
    "padded by less than nothing": Case(lambda h: F.pad(h, (-1, -2))),
    "padded in a circle": Case(lambda h: F.pad(h[:, None], (1, 1), mode="circular")),
    "repeated": Case(lambda h: h.repeat(1, 3)),
    "each repeated": Case(lambda h: h.repeat_interleave(3, 1)),
    "each repeated a different number of times": Case(
        lambda h: h.repeat_interleave(torch.tensor([1, 2, 3, 1, 1, 1, 1, 1]), 1)
    ),
    "repeated both ways": Case(lambda h: h.repeat(1, 2) + h.repeat_interleave(2, 1)),
    # ---------------------------------------------------------------- order matters
    "flip": Case(lambda h: h + h.flip(-1)),
    "roll": Case(lambda h: h + h.roll(1, -1), ""),
    "cumsum": Case(lambda h: h.cumsum(-1), ""),
    "cumsum of samples": Case(lambda h: h.cumsum(0), "8"),
    "logcumsumexp": Case(lambda h: h.logcumsumexp(1), ""),
    "sort": Case(lambda h: h.sort(-1).values),
    "topk": Case(lambda h: h.topk(3, -1).values),
    "arg max": Case(lambda h: F.one_hot(h.argmax(1), 8), ""),
    "gather at the arg max": Case(lambda h: h.gather(1, h.argmax(1, keepdim=True))),
    "permuted by an index": Case(lambda h: h[:, torch.tensor([3, 1, 2, 0, 7, 6, 5, 4])] + h),
    "scattered": Case(lambda h: torch.zeros_like(h).scatter(1, torch.arange(7, -1, -1).expand(4, 8), h)),
    "added by an index": Case(
        lambda h: h.new_zeros(4, 3).index_add(1, torch.tensor([0, 1, 2, 0, 1, 2, 0, 1]), h)
    ),
    "fourier transform": Case(lambda h: torch.fft.rfft(h).abs(), ""),
    "windows": Case(lambda h: h.unfold(1, 3, 1)),
    "differences": Case(lambda h: h.diff(dim=1), ""),
    "a constant that varies": Case(lambda h: h * torch.tensor([1.0, 1, 1, 2, 2, 2, 3, 3])),
    "a limit that varies": Case(lambda h: h.clamp(min=torch.linspace(-1, 0, 8).to(h)), ""),
    "channels as a sequence": Case(lambda h: F.conv1d(h[:, None], h.new_ones(1, 1, 3)), ""),
    "pooled channels": Case(lambda h: F.max_pool1d(h[:, None], 2)),
    # ---------------------------------------------------------------- reductions
    "softmax": Case(lambda h: h.softmax(1), "8"),
    "normalised": Case(lambda h: F.normalize(h, dim=1), "8"),
    "standardised": Case(lambda h: (h - h.mean(-1, keepdim=True)) / h.std(-1, keepdim=True), "8"),
    "centred twice": Case(
        lambda h: (lambda c: c - c.mean(-1, keepdim=True))(h - h.mean(-1, keepdim=True)), "8"
    ),
    "a norm of one half": Case(lambda h: torch.cat([F.layer_norm(h[:, :4], (4,)), h[:, 4:]], 1), "4 4"),
    "product of all": Case(lambda h: h.prod(-1, keepdim=True), "8"),
    "largest and smallest": Case(lambda h: torch.stack(h.aminmax(dim=1), 1), "8"),
    "logsumexp": Case(lambda h: h.logsumexp(-1, keepdim=True), "8"),
    "median": Case(lambda h: h.median(-1, keepdim=True).values),
    "kth value": Case(lambda h: h.kthvalue(3, -1, keepdim=True).values),
    "quantile": Case(lambda h: h.quantile(0.3, dim=-1, keepdim=True)),
    "times its sum": Case(lambda h: h * h.sum(), "8"),
    "mode": Case(lambda h: h.round().mode(1, keepdim=True).values),
    # ---------------------------------------------------------------- products with itself
    "outer product": Case(lambda h: h[:, :, None] * h[:, None], "8"),
    "outer product, folded": Case(lambda h: (h[:, :, None] * h[:, None]).reshape(4, 4, 16).sum(1)),
    "outer product, transposed": Case(lambda h: (h[:, :, None] - h[:, None]).mT + h[:, :, None], "8"),
    "outer product, squared": Case(
        lambda h: (h[:, :, None] - h[:, None]) @ (h[:, :, None] - h[:, None]), "8"
    ),
    "outer product, softmax": Case(lambda h: (h[:, :, None] + h[:, None]).softmax(1), "8"),
    "outer product, lower part": Case(lambda h: (h[:, :, None] + h[:, None]).tril().sum(1), ""),
    "outer product, one row": Case(lambda h: (h[:, :, None] - h[:, None])[:, 0], "7"),
    "outer product, a corner": Case(lambda h: (h[:, :, None] - h[:, None])[:, :4, 4:], "4 4"),
    "outer product, overlapping slices": Case(
        lambda h: (lambda o: torch.cat([o[..., :5], o[..., 3:]], 2))(h[:, :, None] - h[:, None]), "3 2 3"
    ),
    "outer product, diagonal": Case(lambda h: (h[:, :, None] * h[:, None]).diagonal(dim1=1, dim2=2)),
    "outer product of halves, both ways": Case(
        lambda h: (h[:, :4, None] * h[:, None, 4:]).flatten(1) + (h[:, 4:, None] * h[:, None, :4]).flatten(1)
    ),
    "gram matrix": Case(lambda h: (h.t() @ h).expand(4, 8, 8), "8"),
    "gram matrix of samples": Case(lambda h: h @ h.t() @ h, "8"),
    "covariance": Case(lambda h: torch.cov(h.t()).expand(4, 8, 8), "8"),
    "cosine similarities": Case(lambda h: F.cosine_similarity(h[:, None], h[None], dim=-1), "8"),
    "an inverse": Case(lambda h: torch.linalg.inv(h.t() @ h + torch.eye(8).to(h)), None),
    "a solution": Case(lambda h: torch.linalg.solve(h @ h.t() + torch.eye(4).to(h), h)),
    "kronecker product": Case(lambda h: torch.stack([torch.kron(row, row) for row in h]), "8"),
    "meshgrid": Case(lambda h: torch.stack(torch.meshgrid(h[0], h[1], indexing="ij")).expand(4, 2, 8, 8)),
    "powers": Case(lambda h: torch.vander(h[0]).expand(4, 8, 8)),
    "samples and channels exchanged": Case(lambda h: h.t().reshape(4, 8)),
    "complex numbers": Case(lambda h: torch.view_as_complex(h.view(4, 4, 2)).abs(), "4"),
    "polar": Case(lambda h: torch.view_as_real(torch.polar(h[:, :4].abs(), h[:, 4:])), "4"),
}
