"""In-place writes, on the whole tensor, on views of it, and into fresh memory."""

import torch
from hypothesis import strategies as st
from torch import Tensor, nn

from .program import Do, Draw, Shape, an_axis, divisors, step


@step
def write_part(draw: Draw, shape: Shape) -> nn.Module | None:
    """Change a slice of a copy."""
    dim = an_axis(draw, shape, batch=True, of=lambda n: n > 1)
    if dim is None:
        return None
    start = draw(st.integers(0, shape[dim] - 1))
    length = draw(st.integers(1, shape[dim] - start))
    operations = {
        "mul_": lambda part, x: part.mul_(2),
        "zero_": lambda part, x: part.zero_(),
        "tanh_": lambda part, x: part.tanh_(),
        "copy_ from the start": lambda part, x: part.copy_(x.narrow(dim, 0, length).sin()),
        "add_ the end": lambda part, x: part.add_(x.narrow(dim, x.shape[dim] - length, length)),
    }
    name = draw(st.sampled_from(sorted(operations)))

    def function(x: Tensor) -> Tensor:
        y = x.clone()
        operations[name](y.narrow(dim, start, length), x)
        return y

    return Do(f"{name} on [{start}:{start + length}] along {dim}", function)


@step
def write_view(draw: Draw, shape: Shape) -> nn.Module | None:
    """Change a copy through a reshaped or transposed view of it."""
    dim = an_axis(draw, shape, of=lambda n: n > 1)
    if dim is None:
        return None
    outer = draw(st.sampled_from(divisors(shape[dim])))
    inner = draw(st.booleans())

    def function(x: Tensor) -> Tensor:
        y = x.clone(memory_format=torch.contiguous_format)
        view = y.unflatten(dim, (outer, -1)).movedim(dim + inner, 0)
        view[0].mul_(3)
        return y

    return Do(f"write the first of {outer} ({'inner' if inner else 'outer'}) along {dim}", function)


@step
def gather_in_zeros(draw: Draw, shape: Shape) -> nn.Module | None:
    """Copy parts into fresh memory at other places."""
    dim = an_axis(draw, shape, of=lambda n: n > 1)
    if dim is None:
        return None
    at = draw(st.integers(1, shape[dim] - 1))
    room = draw(st.integers(0, 2))

    def function(x: Tensor) -> Tensor:
        size = x.shape[dim]
        y = x.new_zeros([size + room if d == dim else n for d, n in enumerate(x.shape)])
        y.narrow(dim, 0, size - at).copy_(x.narrow(dim, at, size - at))
        y.narrow(dim, size - at, at).add_(x.narrow(dim, 0, at))
        return y

    return Do(f"zeros with room {room}, parts swapped at {at} along {dim}", function)


@step
def in_place(draw: Draw, shape: Shape) -> nn.Module:
    operations = {
        "relu_": lambda x: x.clone().relu_(),
        "mul_ by itself": lambda x: x.clone().mul_(x),
        "transpose_ twice": lambda x: x.clone().transpose_(0, 1).mul_(2).transpose_(0, 1),
        "unsqueeze_": lambda x: x.clone().unsqueeze_(1).add_(1).squeeze_(1),
        "sub_ mean": lambda x: x.clone().sub_(x.mean(-1, keepdim=True)),
        "chunks": _chunks,
    }
    name = draw(st.sampled_from(sorted(operations)))
    return Do(name, operations[name])


def _chunks(x: Tensor) -> Tensor:
    y = x.clone()
    first, *others = y.chunk(2, -1)
    for other in others:
        other.add_(first.narrow(-1, 0, other.shape[-1]))
    return y
