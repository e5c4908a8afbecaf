"""Parameters used in ways that no layer has: functions of the input [B, 5] and of named parameters."""

import torch
import torch.nn.functional as F

from .case import Case

IN, OUT = (5, 8), (8, 3)

WEIGHTS: dict[str, Case] = {
    # ---------------------------------------------------------------- one weight in several places
    "and its transpose": Case(
        lambda x, p: (x @ p.a).tanh() @ p.w @ p.w.t() @ p.b, "8 6", {"a": IN, "w": (8, 6), "b": OUT}
    ),
    "made symmetric": Case(
        lambda x, p: (x @ p.a).tanh() @ (p.w + p.w.t()) @ p.b, "8", {"a": IN, "w": (8, 8), "b": OUT}
    ),
    "twice": Case(lambda x, p: (x @ p.a @ p.w).tanh() @ p.w @ p.b, "8", {"a": IN, "w": (8, 8), "b": OUT}),
    "forwards and back": Case(
        lambda x, p: (x @ p.a @ p.w).tanh() @ p.w.t() @ p.b, "8 8", {"a": IN, "w": (8, 8), "b": OUT}
    ),
    "times its transpose": Case(
        lambda x, p: (x @ p.a).tanh() @ (p.w.t() @ p.w) @ p.b, "8 6", {"a": IN, "w": (6, 8), "b": OUT}
    ),
    "a bias in two places": Case(
        lambda x, p: ((x @ p.a + p.t).tanh() @ p.w + p.t).tanh() @ p.b,
        "8",
        {"a": IN, "w": (8, 8), "t": (8,), "b": OUT},
    ),
    "a kernel and its transpose": Case(
        lambda x, p: F.conv_transpose1d(F.conv1d(x[:, None], p.w).tanh(), p.w)[:, 0, :5] @ p.b,
        "6",
        {"w": (6, 1, 3), "b": (5, 3)},
    ),
    "an embedding and its transpose": Case(
        lambda x, p: F.embedding((x[:, :2] > 0).long(), p.e).sum(1).tanh() @ p.e.t() @ p.b,
        None,
        {"e": (2, 8), "b": (2, 3)},
    ),
    # ---------------------------------------------------------------- functions of a weight
    "flipped": Case(
        lambda x, p: (x @ p.a).tanh() @ p.w.flip(0) @ p.b, None, {"a": IN, "w": (8, 6), "b": (6, 3)}
    ),
    "plus itself rolled": Case(
        lambda x, p: (x @ p.a).tanh() @ (p.w + p.w.roll(1, 1)) @ p.b, "8", {"a": IN, "w": (8, 6), "b": (6, 3)}
    ),
    "softmax of rows": Case(
        lambda x, p: (x @ p.a).tanh() @ p.w.softmax(1) @ p.b, "8 6", {"a": IN, "w": (8, 6), "b": (6, 3)}
    ),
    "softmax of columns": Case(
        lambda x, p: (x @ p.a).tanh() @ p.w.softmax(0) @ p.b, "8 6", {"a": IN, "w": (8, 6), "b": (6, 3)}
    ),
    "standardised": Case(
        lambda x, p: (x @ p.a).tanh() @ ((p.w - p.w.mean(0)) / p.w.std(0)) @ p.b,
        "8 6",
        {"a": IN, "w": (8, 6), "b": (6, 3)},
    ),
    "upper part": Case(
        lambda x, p: (x @ p.a).tanh() @ p.w.triu() @ p.b, "", {"a": IN, "w": (8, 8), "b": OUT}
    ),
    "its diagonal as a scale": Case(
        lambda x, p: (x @ p.a).tanh() * p.w.diagonal() @ p.b + x @ p.a @ p.w @ p.b,
        None,
        {"a": IN, "w": (8, 8), "b": OUT},
    ),
    "a diagonal matrix": Case(
        lambda x, p: (x @ p.a).tanh() @ torch.diag(p.d) @ p.b, None, {"a": IN, "d": (8,), "b": OUT}
    ),
    "a toeplitz matrix": Case(
        lambda x, p: (x @ p.a).tanh() @ p.t[torch.arange(8)[:, None] - torch.arange(8) + 7] @ p.b,
        "",
        {"a": IN, "t": (15,), "b": OUT},
    ),
    "an outer product": Case(
        lambda x, p: (x @ (p.u[:, None] * p.v)).tanh() @ p.b, "8", {"u": (5,), "v": (8,), "b": OUT}
    ),
    "a kronecker product": Case(
        lambda x, p: (F.pad(x, (0, 1)) @ torch.kron(p.u, p.v)).tanh() @ p.b,
        None,
        {"u": (2, 2), "v": (3, 4), "b": OUT},
    ),
    "repeated": Case(
        lambda x, p: (x @ p.a).tanh() @ p.w.repeat(2, 1) @ p.b, None, {"a": IN, "w": (4, 6), "b": (6, 3)}
    ),
    "each row repeated": Case(
        lambda x, p: (x @ p.a).tanh() @ p.w.repeat_interleave(2, 0) @ p.b,
        None,
        {"a": IN, "w": (4, 6), "b": (6, 3)},
    ),
    "expanded": Case(
        lambda x, p: (x @ p.a).tanh() @ p.w.expand(8, 6) @ p.b, "8 6", {"a": IN, "w": (1, 6), "b": (6, 3)}
    ),
    "rows by an index": Case(
        lambda x, p: (x @ p.a).tanh() @ p.w[torch.tensor([0, 1, 2, 3] * 2)] @ p.b,
        None,
        {"a": IN, "w": (4, 6), "b": (6, 3)},
    ),
    "a rotation by cayley's formula": Case(
        lambda x, p: (
            (x @ p.a).tanh()
            @ torch.linalg.solve(torch.eye(8).to(x) + p.w - p.w.t(), torch.eye(8).to(x) - p.w + p.w.t())
            @ p.b
        ),
        None,
        {"a": IN, "w": (8, 8), "b": OUT},
    ),
    "a copy written to": Case(lambda x, p: (x @ p.w.clone().mul_(2)).tanh() @ p.b, "8", {"w": IN, "b": OUT}),
    # ---------------------------------------------------------------- parameters that are no weights
    "a scalar": Case(
        lambda x, p: (x @ p.a * p.t.exp() + p.t).tanh() @ p.b, "8", {"a": IN, "t": (1,), "b": OUT}
    ),
    "a scalar beside sums": Case(
        lambda x, p: torch.stack([x.sum(), (x @ p.a).sum(), p.t[0]]) @ p.b,
        None,
        {"a": IN, "t": (2,), "b": (3, 3)},
    ),
    "a temperature": Case(lambda x, p: (x @ p.a * p.t).tanh() @ p.b, "8", {"a": IN, "t": (), "b": OUT}),
    "data": Case(lambda x, p: (p.d @ p.a).tanh() @ p.b + x[:, :3], None, {"d": (4, 5), "a": IN, "b": OUT}),
    "keys and values": Case(
        lambda x, p: (x @ p.k).softmax(-1) @ p.v @ p.b, "6 8", {"k": (5, 6), "v": (6, 8), "b": OUT}
    ),
    "centres": Case(
        lambda x, p: (-((x[:, None] - p.c) ** 2).sum(-1)).exp() @ p.b, "6", {"c": (6, 5), "b": (6, 3)}
    ),
    "thresholds": Case(
        lambda x, p: torch.where(x @ p.a > p.t, x @ p.a, p.t) @ p.b, "8", {"a": IN, "t": (8,), "b": OUT}
    ),
    "one bias per sample": Case(
        lambda x, p: (x @ p.a + p.s).tanh().sum(0, keepdim=True).expand(4, 8) @ p.b,
        "8",
        {"a": IN, "s": (4, 8), "b": OUT},
    ),
    "a table by sign": Case(
        lambda x, p: p.e[:, (x[:, 0] > 0).long()].t().tanh() @ p.b, "8", {"e": (8, 2), "b": OUT}
    ),
    "directions": Case(
        lambda x, p: F.cosine_similarity((x @ p.a).tanh()[:, None], p.c, dim=-1) @ p.b,
        "8 6",
        {"a": IN, "c": (6, 8), "b": (6, 3)},
    ),
    "statistics": Case(
        lambda x, p: F.batch_norm(x @ p.a, p.m, p.m.abs()).tanh() @ p.b, "8", {"a": IN, "m": (8,), "b": OUT}
    ),
    "max plus": Case(
        lambda x, p: ((x @ p.a).tanh()[:, :, None] + p.w).amax(1) @ p.b,
        "8 6",
        {"a": IN, "w": (8, 6), "b": (6, 3)},
    ),
    "splines": Case(
        lambda x, p: (
            torch.einsum("big,iog->bo", ((x @ p.a)[..., None] - torch.linspace(-1, 1, 4).to(x)).relu(), p.w)
            @ p.b
        ),
        "8 6",
        {"a": IN, "w": (8, 6, 4), "b": (6, 3)},
    ),
    "a quadratic form": Case(
        lambda x, p: torch.einsum("bi,ij,bj->b", (x @ p.a).tanh(), p.w, (x @ p.a).tanh())[:, None] * p.b,
        "4",
        {"a": (5, 4), "w": (4, 4), "b": (3,)},
    ),
    "a cubic form": Case(
        lambda x, p: torch.einsum("bi,bj,ijk->bk", (x @ p.a).tanh(), (x @ p.a).tanh(), p.w) @ p.b,
        "4 7",
        {"a": (5, 4), "w": (4, 4, 7), "b": (7, 3)},
    ),
    "a trilinear form": Case(
        lambda x, p: torch.einsum("bi,bj,ijk->bk", (x @ p.a).tanh(), (x @ p.c).tanh(), p.w) @ p.b,
        "4 6 7",
        {"a": (5, 4), "c": (5, 6), "w": (4, 6, 7), "b": (7, 3)},
    ),
}
