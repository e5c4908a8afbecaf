"""In-place writes to hidden channels [B, 8]: on slices, views and fresh memory."""

from collections.abc import Callable

import torch
from torch import Tensor

from .case import Case


def on_a_copy(*writes: Callable[[Tensor], object]) -> Callable[[Tensor], Tensor]:
    """A copy of the channels after the writes."""

    def function(h: Tensor) -> Tensor:
        copy = h.clone()
        for write in writes:
            write(copy)
        return copy

    return function


def into_zeros(*shape: int) -> Callable[[Callable[[Tensor, Tensor], object]], Callable[[Tensor], Tensor]]:
    """Fresh memory of a shape after a write to it."""

    def decorate(write: Callable[[Tensor, Tensor], object]) -> Callable[[Tensor], Tensor]:
        def function(h: Tensor) -> Tensor:
            memory = h.new_zeros(shape)
            write(memory, h)
            return memory

        return function

    return decorate


def columns(z: Tensor, h: Tensor) -> None:
    for i in range(8):
        z[:, i] = h[:, 7 - i]


def rows(z: Tensor, h: Tensor) -> None:
    for i in range(4):
        z[i].copy_(h[i])


def three_writes(z: Tensor, h: Tensor) -> None:
    z[:, :8] = h
    z[:, 8:] = h * 2
    z[:, 4:12] *= 3


def two_layers(z: Tensor, h: Tensor) -> None:
    z[:, 0] = h
    z[:, 1] = 2 * h


def two_layers_rolled(z: Tensor, h: Tensor) -> None:
    z[:, 0] = h
    z[:, 1] = h.roll(1, 1)


def through_chunks(h: Tensor) -> Tensor:
    first, second = h.clone().chunk(2, 1)
    first += second
    return torch.cat([first, second], 1)


def an_alias_read_later(h: Tensor) -> Tensor:
    memory = h.clone()
    alias = memory.view(4, 8)
    memory *= 2
    return alias + memory


def a_copy_that_does_not_matter(h: Tensor) -> Tensor:
    h.clone().mul_(torch.arange(8))
    return h


MEMORY: dict[str, Case] = {
    "relu_": Case(on_a_copy(lambda c: c.relu_()), "8"),
    "a slice scaled": Case(on_a_copy(lambda c: c[:, :3].mul_(2)), "3 5"),
    "a half added to the other": Case(on_a_copy(lambda c: c[:, :4].add_(c[:, 4:])), "4"),
    "a half copied over the other": Case(on_a_copy(lambda c: c[:, :4].copy_(c[:, 4:].clone()))),
    "an overlapping copy": Case(on_a_copy(lambda c: c[:, 2:].copy_(c[:, :6].clone()))),
    "a sample copied": Case(on_a_copy(lambda c: c[0].copy_(c[1].clone())), "8"),
    "a sample scaled by a ramp": Case(on_a_copy(lambda c: c[0].mul_(torch.arange(8))), ""),
    "a channel cleared": Case(on_a_copy(lambda c: c[:, 0].zero_()), "7"),
    "a channel copied": Case(on_a_copy(lambda c: c[:, 0].copy_(c[:, 1].clone())), "6"),
    "every second scaled": Case(on_a_copy(lambda c: c[:, ::2].mul_(2))),
    "a row of the transpose": Case(on_a_copy(lambda c: c.t()[3].fill_(1)), "3 4"),
    "one head through a view": Case(on_a_copy(lambda c: c.view(4, 2, 4)[:, 0].add_(1)), "4 4"),
    "one dimension of each head": Case(on_a_copy(lambda c: c.view(4, 2, 4)[:, :, 0].zero_())),
    "a diagonal": Case(on_a_copy(lambda c: c[:, :4].diagonal().zero_())),
    "transpose_": Case(lambda h: h.clone().t_().mul_(2).t(), "8"),
    "unsqueeze_": Case(lambda h: h.clone().unsqueeze_(1).mul_(2), "8"),
    "resize_": Case(lambda h: h.clone().resize_(4, 2, 4).sum(1)),
    "an index": Case(on_a_copy(lambda c: c.__setitem__((slice(None), torch.tensor([1, 3])), 0.0))),
    "an index with values": Case(on_a_copy(lambda c: c.__setitem__((slice(None), [1, 3]), c[:, :2] * 2))),
    "a mask of values": Case(on_a_copy(lambda c: c.__setitem__(c > 0.3, 0.0))),
    "a mask of places": Case(on_a_copy(lambda c: c.masked_fill_(torch.arange(8) < 3, 0))),
    "index_add_": Case(on_a_copy(lambda c: c.index_add_(1, torch.tensor([0, 1]), c[:, 6:].clone()))),
    "scatter_": Case(on_a_copy(lambda c: c.scatter_(1, torch.tensor([[0, 1]] * 4), c[:, 6:].clone()))),
    "two writes that depend": Case(
        on_a_copy(lambda c: c[:, :4].add_(1), lambda c: c[:, 4:].mul_(c[:, :4])), "4"
    ),
    "fill_diagonal_": Case(lambda h: (h.t() @ h).fill_diagonal_(0).expand(4, 8, 8)),
    "as_strided": Case(on_a_copy(lambda c: c.as_strided((4, 4), (8, 2)).zero_())),
    "through chunks": Case(through_chunks, "4"),
    "through unbound channels": Case(on_a_copy(lambda c: [v.mul_(i) for i, v in enumerate(c.unbind(1))])),
    "through a detached alias": Case(on_a_copy(lambda c: c.detach().mul_(2)), "8"),
    "an alias read later": Case(an_alias_read_later, "8"),
    "a copy that does not matter": Case(a_copy_that_does_not_matter, "8"),
    "copied into zeros": Case(into_zeros(4, 8)(lambda z, h: z.copy_(h)), "8"),
    "copied into a part of zeros": Case(into_zeros(4, 10)(lambda z, h: z[:, 1:9].copy_(h)), None),
    "one sample copied into all": Case(into_zeros(4, 8)(lambda z, h: z.copy_(h[:1])), "8"),
    "three writes that overlap": Case(into_zeros(4, 16)(three_writes), "4 4"),
    "column by column": Case(into_zeros(4, 8)(columns)),
    "row by row": Case(into_zeros(4, 8)(rows), "8"),
    "two layers of memory": Case(into_zeros(4, 2, 8)(two_layers), "8"),
    "two layers of memory, softmax across": Case(
        lambda h: into_zeros(4, 2, 8)(two_layers)(h).softmax(1), "8"
    ),
    "two layers of memory, rolled": Case(into_zeros(4, 2, 8)(two_layers_rolled), ""),
    "addmm_": Case(into_zeros(4, 8)(lambda z, h: z.addmm_(h, h.t() @ h)), "8"),
    "out=": Case(lambda h: torch.add(h, h, out=torch.empty_like(h)), "8"),
}
