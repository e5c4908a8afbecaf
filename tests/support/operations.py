"""A small network for each operation that no architecture of the menagerie uses."""

import torch
import torch.nn.functional as F
from torch import Tensor

from support.adversarial.case import Case


def picture(h: Tensor) -> Tensor:
    """Hidden channels with places: [4, 8] as [4, 8, 3, 3]."""
    return h[:, :, None, None] * torch.linspace(0.5, 1.5, 9).view(3, 3).to(h)


def volume(h: Tensor) -> Tensor:  # [4, 8, 2, 3, 3]
    return torch.stack([picture(h), picture(h).sin()], 2)


def line(h: Tensor) -> Tensor:  # [4, 8, 4]
    return h[:, :, None] * torch.linspace(0.5, 1.5, 4).to(h)


OPERATIONS: dict[str, Case] = {
    # ---------------------------------------------------------------- resampling
    "median": Case(lambda h: h.median(1, keepdim=True).values + h),
    "kthvalue": Case(lambda h: h.kthvalue(2, 1, keepdim=True).values + h),
    "mode": Case(lambda h: h.round().mode(1, keepdim=True).values + h),
    "_adaptive_avg_pool2d": Case(lambda h: F.adaptive_avg_pool2d(picture(h), 2), "8"),
    "_adaptive_avg_pool3d": Case(lambda h: F.adaptive_avg_pool3d(volume(h), 2), "8"),
    "adaptive_max_pool2d": Case(lambda h: F.adaptive_max_pool2d(picture(h), 2), "8"),
    "adaptive_max_pool3d": Case(lambda h: F.adaptive_max_pool3d(volume(h), 2), "8"),
    "avg_pool3d": Case(lambda h: F.avg_pool3d(volume(h), 2), "8"),
    "max_pool3d_with_indices": Case(lambda h: F.max_pool3d(volume(h), 2), "8"),
    "upsample_nearest1d": Case(lambda h: F.interpolate(line(h), scale_factor=2), "8"),
    "upsample_nearest3d": Case(lambda h: F.interpolate(volume(h), scale_factor=2), "8"),
    "_upsample_nearest_exact1d": Case(lambda h: F.interpolate(line(h), 6, mode="nearest-exact"), "8"),
    "_upsample_nearest_exact2d": Case(lambda h: F.interpolate(picture(h), 5, mode="nearest-exact"), "8"),
    "upsample_linear1d": Case(lambda h: F.interpolate(line(h), 6, mode="linear"), "8"),
    "upsample_bicubic2d": Case(lambda h: F.interpolate(picture(h), 5, mode="bicubic"), "8"),
    "upsample_trilinear3d": Case(lambda h: F.interpolate(volume(h), 3, mode="trilinear"), "8"),
    "_upsample_bilinear2d_aa": Case(
        lambda h: F.interpolate(picture(h), 2, mode="bilinear", antialias=True), "8"
    ),
    "_upsample_bicubic2d_aa": Case(
        lambda h: F.interpolate(picture(h), 2, mode="bicubic", antialias=True), "8"
    ),
    "reflection_pad1d": Case(lambda h: F.pad(line(h), (1, 1), mode="reflect"), "8"),
    "reflection_pad2d": Case(lambda h: F.pad(picture(h), (1, 1, 1, 1), mode="reflect"), "8"),
    "reflection_pad3d": Case(lambda h: F.pad(volume(h), (1, 1, 1, 1, 1, 0), mode="reflect"), "8"),
    "replication_pad1d": Case(lambda h: F.pad(line(h), (1, 1), mode="replicate"), "8"),
    "replication_pad2d": Case(lambda h: F.pad(picture(h), (1, 1, 1, 1), mode="replicate"), "8"),
    "replication_pad3d": Case(lambda h: F.pad(volume(h), (1, 1, 1, 1, 1, 1), mode="replicate"), "8"),
    "im2col": Case(lambda h: F.unfold(picture(h), 2), "8"),
    # ---------------------------------------------------------------- reductions and order
    "amin": Case(lambda h: line(h).amin(2), "8"),
    "min": Case(lambda h: line(h).min(2).values, "8"),
    "min of two": Case(lambda h: torch.min(h, h.sin() * 2), "8"),
    "argmin": Case(lambda h: line(h).argmin(2), "8"),
    "any": Case(lambda h: h * (line(h) > 0.5).any(2), "8"),
    "all": Case(lambda h: h * (line(h) > 0.1).all(2), "8"),
    "var": Case(lambda h: line(h).var(2), "8"),
    "std": Case(lambda h: line(h).std(2), "8"),
    "std_mean": Case(lambda h: torch.cat(torch.std_mean(line(h), 2), 1), "8"),
    "logsumexp": Case(lambda h: line(h).logsumexp(2), "8"),
    "cumprod": Case(lambda h: line(h).cumprod(2), "8"),
    "cummax": Case(lambda h: line(h).sin().cummax(2).values, "8"),
    "cummin": Case(lambda h: line(h).sin().cummin(2).values, "8"),
    "logcumsumexp": Case(lambda h: line(h).logcumsumexp(2), "8"),
    "sort": Case(lambda h: line(h).sort(2).values),
    "topk": Case(lambda h: line(h).topk(2, 2).values),
    "argmax": Case(lambda h: line(h).sin().argmax(2), "8"),
    "aminmax": Case(lambda h: torch.stack(line(h).aminmax(dim=2), 2), "8"),
    "cumsum": Case(lambda h: line(h).cumsum(2), "8"),
    "nonzero": Case(lambda h: h * len((h > 0).nonzero())),
    "histc": Case(lambda h: torch.histc(h, 4).expand(4, 4)),
    "bucketize": Case(lambda h: torch.bucketize(h, torch.tensor([-0.5, 0, 0.5]).to(h)), None),
    "searchsorted": Case(lambda h: torch.searchsorted(torch.tensor([-0.5, 0, 0.5]).to(h), h), None),
    "bincount": Case(lambda h: h * torch.bincount((h.flatten() > 0).long(), minlength=2)[0]),
    "_unique2": Case(lambda h: h * (h > 0).unique().sum()),
    "unique_dim": Case(lambda h: h * (h > 0).long().unique(dim=0).sum()),
    "multinomial": Case(lambda h: h * torch.multinomial(torch.tensor([0.0, 1.0, 0.0]), 1), "8"),
    "_fft_r2c": Case(lambda h: torch.fft.rfft(line(h)).abs()),
    "_fft_c2r": Case(lambda h: torch.fft.irfft(torch.fft.rfft(line(h)))),
    "_fft_c2c": Case(lambda h: torch.fft.fft(torch.complex(h, h.sin())).abs()),
    # ---------------------------------------------------------------- indexing
    "gather": Case(lambda h: line(h).gather(2, torch.tensor([3, 0]).expand(4, 8, 2)), "8"),
    "scatter": Case(lambda h: line(h).scatter(2, torch.tensor([3]).expand(4, 8, 1), line(h)), "8"),
    "as_strided": Case(lambda h: h.as_strided((4, 8), (8, 1)), "8"),
    "alias": Case(lambda h: torch.ops.aten.alias(h), "8"),
    "index_copy": Case(lambda h: torch.zeros_like(h).index_copy(0, torch.tensor([3, 2, 1, 0]), h), "8"),
    "index_put": Case(lambda h: torch.zeros_like(h).index_put((torch.tensor([3, 2, 1, 0]),), h), "8"),
    "_unsafe_index": Case(lambda h: torch.ops.aten._unsafe_index(h, [torch.tensor([3, 2, 1, 0])]), "8"),
    "_index_put_impl": Case(
        lambda h: torch.ops.aten._index_put_impl_(h.clone(), [torch.tensor([0])], h[1:2]), "8"
    ),
    "_embedding_bag_forward_only": Case(
        lambda x, p: F.embedding_bag((x[:, :2] > 0).long(), p.e.detach()).tanh() @ p.b,
        "8",
        {"e": (2, 8), "b": (8, 3)},
    ),
    # ---------------------------------------------------------------- products
    "linalg_inv_ex": Case(lambda h: torch.linalg.inv(h @ h.t() + torch.eye(4).to(h)), "8"),
    "_linalg_solve_ex": Case(lambda h: torch.linalg.solve(h @ h.t() + torch.eye(4).to(h), h)),
    "linalg_solve_triangular": Case(
        lambda h: torch.linalg.solve_triangular((h @ h.t()).tril() + torch.eye(4).to(h), h, upper=False)
    ),
    "_grouped_mm": Case(
        lambda x, p: (
            torch._grouped_mm(
                (x @ p.a).tanh().bfloat16(), p.w.bfloat16(), torch.tensor([1, 4], dtype=torch.int32)
            ).to(x)
            @ p.b
        ),
        None,
        {"a": (5, 8), "w": (2, 8, 16), "b": (16, 3)},
    ),
    # ---------------------------------------------------------------- complex numbers
    "complex": Case(lambda h: torch.complex(h, h.sin()).abs(), "8"),
    "polar": Case(lambda h: torch.polar(h.abs(), h).real, "8"),
    "angle": Case(lambda h: torch.complex(h, h.sin()).angle(), "8"),
    "_conj": Case(lambda h: torch.complex(h, h.sin()).conj().square().real, "8"),
    "view_as_real": Case(lambda h: torch.view_as_real(torch.complex(h, h.sin())), "8"),
    "view_as_complex": Case(lambda h: torch.view_as_complex(torch.stack([h, h.sin()], -1)).abs(), "8"),
    # ---------------------------------------------------------------- creation
    "new_full": Case(lambda h: h * h.new_full((4, 8), 2), "8"),
    "ones_like": Case(lambda h: h + torch.ones_like(h), "8"),
    "full_like": Case(lambda h: h + torch.full_like(h, 3), "8"),
    "zero": Case(lambda h: h.clone().zero_() + h, "8"),
    "empty": Case(lambda h: torch.empty((4, 8), dtype=h.dtype).copy_(h), "8"),
    "new_empty_strided": Case(lambda h: h.new_empty_strided((4, 8), (8, 1)).copy_(h), "8"),
    "empty_strided": Case(lambda h: torch.empty_strided((4, 8), (1, 4), dtype=h.dtype).copy_(h), "8"),
    "eye": Case(lambda h: torch.eye(4).to(h) @ h, "8"),
    "logspace": Case(lambda h: h * torch.logspace(0, 1, 4).to(h)[:, None], "8"),
    "tril_indices": Case(lambda h: h[torch.tril_indices(4, 4)[0]][:4], "8"),
    "triu_indices": Case(lambda h: h[torch.triu_indices(4, 4)[0]][:4], "8"),
    "rand": Case(lambda h: h * torch.rand(4, 1).to(h), "8"),
    "randn": Case(lambda h: h * torch.randn(4, 1).to(h), "8"),
    "randint": Case(lambda h: h * torch.randint(1, 5, (4, 1)), "8"),
    "randperm": Case(lambda h: h * (1 + torch.randperm(4))[:, None], "8"),
    "hamming_window": Case(lambda h: h * torch.hamming_window(8).to(h)),
    # ---------------------------------------------------------------- the rest
    "_assert_async": Case(lambda h: (torch._assert_async(h.sum().isfinite()), h)[1], "8"),
    "_assert_tensor_metadata": Case(
        lambda h: (torch.ops.aten._assert_tensor_metadata(h, [4, 8], None, h.dtype), h)[1], "8"
    ),
    "_convolution": Case(
        lambda x, p: (
            torch.ops.aten._convolution(
                x[:, None], p.w, p.c, [1], [0], [1], False, [0], 1, False, False, False, False
            )
            .tanh()
            .flatten(1)
            @ p.b
        ),
        "6",
        {"w": (6, 1, 3), "c": (6,), "b": (18, 3)},
    ),
    "native_dropout": Case(lambda h: torch.ops.aten.native_dropout(h, 0.5, False)[0], "8"),
    "floor_divide": Case(lambda h: h * torch.floor_divide(3 * h, 2), "8"),
    "equal": Case(lambda h: h * (2 if torch.equal(h, h.sin()) else 3), "8"),
    "unsafe_split_with_sizes": Case(
        lambda h: torch.cat(torch.ops.aten.unsafe_split_with_sizes(h, [3, 5], 1)[::-1], 1), "3 5"
    ),
    "_reshape_alias": Case(lambda h: torch.ops.aten._reshape_alias(h, [4, 2, 4], [8, 4, 1]).sum(2), "2 4"),
    "lift_fresh_copy": Case(lambda h: torch.ops.aten.lift_fresh_copy(h), "8"),
    "lift": Case(lambda h: torch.ops.aten.lift(h), "8"),
    "is_same_size": Case(lambda h: h * (2 if h.is_same_size(h.t()) else 3), "8"),
    "_native_batch_norm_legit": Case(
        lambda x, p: (
            torch.ops.aten._native_batch_norm_legit(
                x @ p.a, p.g, p.s, p.m.clone(), p.v.abs(), False, 0.1, 1e-5
            )[0].tanh()
            @ p.b
        ),
        "8",
        {"a": (5, 8), "g": (8,), "s": (8,), "m": (8,), "v": (8,), "b": (8, 3)},
    ),
    "_native_batch_norm_legit_no_training": Case(
        lambda x, p: (
            torch.ops.aten._native_batch_norm_legit_no_training(x @ p.a, p.g, p.s, p.m, p.v.abs(), 0.1, 1e-5)[
                0
            ].tanh()
            @ p.b
        ),
        "8",
        {"a": (5, 8), "g": (8,), "s": (8,), "m": (8,), "v": (8,), "b": (8, 3)},
    ),
}
