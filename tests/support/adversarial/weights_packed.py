"""One tensor that holds several parameters, and parameters with an axis for heads or experts."""

import torch
import torch.nn.functional as F
from torch import Tensor

from .case import Case

IN, OUT = (5, 8), (8, 3)


def perceptron(x: Tensor, first: Tensor, bias: Tensor, last: Tensor) -> Tensor:
    return (x @ first.view(5, 8) + bias).tanh() @ last.view(8, 3)


def heads(x: Tensor, weight: Tensor) -> Tensor:
    return (x @ weight).view(4, 2, 4).tanh()


def branches(x: Tensor, first: Tensor, second: Tensor) -> Tensor:
    return torch.stack([x @ first, x @ second], 1)


PACKED: dict[str, Case] = {
    # ---------------------------------------------------------------- one flat vector
    "a flat weight": Case(lambda x, p: (x @ p.v.view(5, 8)).tanh() @ p.b, "8", {"v": (40,), "b": OUT}),
    "a whole network in slices": Case(
        lambda x, p: perceptron(x, p.v[:40], p.v[40:48], p.v[48:]), "8", {"v": (72,)}
    ),
    "a whole network by split": Case(lambda x, p: perceptron(x, *p.v.split([40, 8, 24])), "8", {"v": (72,)}),
    "a whole network, transposed": Case(
        lambda x, p: F.linear(F.linear(x, p.v[:40].view(8, 5), p.v[40:48]).tanh(), p.v[48:].view(3, 8)),
        "8",
        {"v": (72,)},
    ),
    # ---------------------------------------------------------------- parts of a matrix
    "columns for two branches": Case(
        lambda x, p: torch.cat([(x @ p.a).tanh() @ p.w[:, :3], (x @ p.c).tanh() @ p.w[:, 3:]], 1) @ p.b,
        None,
        {"a": IN, "c": IN, "w": (8, 6), "b": (6, 3)},
    ),
    "rows for two branches": Case(
        lambda x, p: ((x @ p.a).tanh() @ p.w[:4] + (x @ p.c).tanh() @ p.w[4:]).relu() @ p.b,
        "4 4 6",
        {"a": (5, 4), "c": (5, 4), "w": (8, 6), "b": (6, 3)},
    ),
    "rows that overlap": Case(
        lambda x, p: ((x @ p.a).tanh() @ p.w[:5] + (x @ p.c).tanh() @ p.w[3:]).relu() @ p.b,
        "3 2 3 6",
        {"a": (5, 5), "c": (5, 5), "w": (8, 6), "b": (6, 3)},
    ),
    "quadrants": Case(
        lambda x, p: (
            torch.cat(
                [
                    (x @ p.a).tanh() @ p.w[:4, :3] + (x @ p.c).tanh() @ p.w[4:, :3],
                    (x @ p.a).tanh() @ p.w[:4, 3:] - (x @ p.c).tanh() @ p.w[4:, 3:],
                ],
                1,
            )
            @ p.b
        ),
        "4 4 3 3",
        {"a": (5, 4), "c": (5, 4), "w": (8, 6), "b": (6, 3)},
    ),
    "a gate for one half": Case(
        lambda x, p: torch.cat([(x @ p.a)[:, :4] * p.g, (x @ p.a)[:, 4:]], 1).tanh() @ p.b,
        "4 4",
        {"a": IN, "g": (4,), "b": OUT},
    ),
    "four gates": Case(
        lambda x, p: (lambda i, f, g, o: (i.sigmoid() * g.tanh() + f) * o.sigmoid() @ p.b)(
            *(x @ p.a).chunk(4, 1)
        ),
        "8",
        {"a": (5, 32), "b": OUT},
    ),
    "gates interleaved": Case(
        lambda x, p: (x @ p.a).view(4, 8, 2)[..., 0] * (x @ p.a).view(4, 8, 2)[..., 1].sigmoid() @ p.b,
        "8",
        {"a": (5, 16), "b": OUT},
    ),
    "a butterfly": Case(
        lambda x, p: (lambda a, b: torch.cat([a + b, a - b], 1) @ p.b)(*(x @ p.a).tanh().chunk(2, 1)),
        "4",
        {"a": IN, "b": OUT},
    ),
    "pairs that rotate": Case(
        lambda x, p: (
            torch.view_as_real(
                torch.view_as_complex((x @ p.a).view(4, 4, 2))
                * torch.polar(torch.ones(4).to(x), torch.arange(4).to(x))
            ).flatten(1)
            @ p.b
        ),
        "",
        {"a": IN, "b": OUT},
    ),
    "written from two": Case(
        lambda x, p: (x @ _side_by_side(p.u, p.v)).tanh() @ p.b, "3 5", {"u": (5, 3), "v": (5, 5), "b": OUT}
    ),
    # ---------------------------------------------------------------- branches on an axis of their own
    "stacked branches": Case(
        lambda x, p: branches(x, p.a, p.c).tanh().flatten(1) @ p.b, "8 8", {"a": IN, "c": IN, "b": (16, 3)}
    ),
    "stacked branches, halves added": Case(
        lambda x, p: sum(branches(x, p.a, p.c).chunk(2, 2)).flatten(1) @ p.b,  # type: ignore[union-attr]
        "4 4",
        {"a": IN, "c": IN, "b": (8, 3)},
    ),
    "stacked branches, overlapping slices": Case(
        lambda x, p: (lambda s: torch.cat([s[..., :6], s[..., 2:]], 2).flatten(1) @ p.b)(
            branches(x, p.a, p.c)
        ),
        "2 4 2 2 4 2",
        {"a": IN, "c": IN, "b": (24, 3)},
    ),
    "stacked branches of pairs, one row written": Case(
        lambda x, p: (lambda s: torch.stack([s, s @ p.w], 1).flatten(1) @ p.b)(
            _second_row_from_first((x @ p.a)[:, :, None] + (x @ p.c)[:, None]).amax(1)
        ),
        "2 3 3",
        {"a": (5, 4), "c": (5, 3), "w": (3, 3), "b": (6, 3)},
    ),
    "stacked branches, padded": Case(
        lambda x, p: F.pad(branches(x, p.a, p.c), (1, 1)).flatten(1) @ p.b,
        None,
        {"a": IN, "c": IN, "b": (20, 3)},
    ),
    # ---------------------------------------------------------------- an axis for layers, heads or experts
    "stacked layers": Case(
        lambda x, p: ((x @ p.a).tanh() @ p.w[0]).tanh() @ p.w[1] @ p.b,
        "8 8 8",
        {"a": IN, "w": (2, 8, 8), "b": OUT},
    ),
    "stacked biases": Case(
        lambda x, p: ((x @ p.a + p.c[0]).tanh() @ p.w + p.c[1]).tanh() @ p.b,
        "8 8",
        {"a": IN, "w": (8, 8), "c": (2, 8), "b": OUT},
    ),
    "a scale per head": Case(
        lambda x, p: (heads(x, p.a) * p.s).reshape(4, 8) @ p.b, "2 4", {"a": IN, "s": (2, 1), "b": OUT}
    ),
    "a scale per dimension": Case(
        lambda x, p: (heads(x, p.a) * p.s).reshape(4, 8) @ p.b, "2 4", {"a": IN, "s": (4,), "b": OUT}
    ),
    "a scale for each": Case(
        lambda x, p: (heads(x, p.a) * p.s).reshape(4, 8) @ p.b, "2 4", {"a": IN, "s": (2, 4), "b": OUT}
    ),
    "a matrix per head": Case(
        lambda x, p: torch.einsum("bhd,hde->bhe", heads(x, p.a), p.w).reshape(4, 6).tanh() @ p.b,
        "2 4 3",
        {"a": IN, "w": (2, 4, 3), "b": (6, 3)},
    ),
    "one matrix for all heads": Case(
        lambda x, p: torch.einsum("bhd,de->bhe", heads(x, p.a), p.w).reshape(4, 6).tanh() @ p.b,
        "2 4 3",
        {"a": IN, "w": (4, 3), "b": (6, 3)},
    ),
    "a matrix across heads": Case(
        lambda x, p: torch.einsum("bhd,hg->bgd", heads(x, p.a), p.w).reshape(4, 12).tanh() @ p.b,
        "2 4 3",
        {"a": IN, "w": (2, 3), "b": (12, 3)},
    ),
    "a matrix for everything": Case(
        lambda x, p: torch.einsum("bhd,hdge->bge", heads(x, p.a), p.w).reshape(4, 6).tanh() @ p.b,
        "2 4 3 2",
        {"a": IN, "w": (2, 4, 3, 2), "b": (6, 3)},
    ),
    "experts mixed by a softmax": Case(
        lambda x, p: torch.einsum("be,eio,bi->bo", (x @ p.r).softmax(-1), p.w, (x @ p.a).tanh()) @ p.b,
        "3 8 6",
        {"r": (5, 3), "a": IN, "w": (3, 8, 6), "b": (6, 3)},
    ),
    "each channel twice, a residual, one head": Case(
        lambda x, p: (lambda h: (h + (h @ p.w).tanh()).view(4, 2, 4)[:, 0] @ p.b)(
            (x @ p.a).repeat_interleave(2, 1)
        ),
        None,
        {"a": (5, 4), "w": (8, 8), "b": (4, 3)},
    ),
    "a norm of each head": Case(
        lambda x, p: F.layer_norm(heads(x, p.a), (4,), p.g).flatten(1).tanh() @ p.b,
        "2 4",
        {"a": IN, "g": (4,), "b": OUT},
    ),
    "a norm of all heads": Case(
        lambda x, p: F.layer_norm(heads(x, p.a), (2, 4), p.g).flatten(1).tanh() @ p.b,
        "2 4",
        {"a": IN, "g": (2, 4), "b": OUT},
    ),
    "grouped convolutions": Case(
        lambda x, p: F.conv1d(F.conv1d(x[:, None], p.w).tanh(), p.g, groups=2).flatten(1) @ p.b,
        "2 3 2",
        {"w": (6, 1, 3), "g": (4, 3, 2), "b": (8, 3)},
    ),
    "grouped transposed convolutions": Case(
        lambda x, p: F.conv_transpose1d(F.conv1d(x[:, None], p.w).tanh(), p.g, groups=2).flatten(1) @ p.b,
        "2 3 2",
        {"w": (6, 1, 3), "g": (6, 2, 2), "b": (16, 3)},
    ),
    "monarch matrices": Case(
        lambda x, p: (
            torch.einsum(
                "bij,ijk->bik", torch.einsum("bij,ijk->bik", heads(x, p.a), p.l).mT.reshape(4, 2, 4), p.r
            ).flatten(1)
            @ p.b
        ),
        None,
        {"a": IN, "l": (2, 4, 4), "r": (2, 4, 4), "b": OUT},
    ),
}


def _side_by_side(first: Tensor, second: Tensor) -> Tensor:
    memory = first.new_zeros(5, 8)
    memory[:, :3] = first
    memory[:, 3:] = second
    return memory


def _second_row_from_first(pairs: Tensor) -> Tensor:
    memory = pairs.clone()
    memory[:, 1] = pairs[:, 0].sin()
    return memory
