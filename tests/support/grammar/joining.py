"""Several branches: residual, concatenated, split, broadcast, multiplied."""

import torch
import torch.nn.functional as F
from hypothesis import strategies as st
from torch import Tensor, nn

from .program import SIZES, Do, Draw, Shape, With, an_axis, step


@step
def residual(draw: Draw, shape: Shape) -> nn.Module:
    hidden = draw(SIZES)
    branch = nn.Sequential(nn.Linear(shape[-1], hidden), nn.Tanh(), nn.Linear(hidden, shape[-1]))
    norm = draw(st.sampled_from([nn.Identity(), nn.LayerNorm(shape[-1])]))
    swapped = draw(st.booleans())
    function = (lambda x, f, n: f(n(x)) + x) if swapped else (lambda x, f, n: x + f(n(x)))
    return With("f(norm(x)) + x" if swapped else "x + f(norm(x))", function, branch, norm)


@step
def residual_of_one_layer(draw: Draw, shape: Shape) -> nn.Module:
    return With("x + f(x)", lambda x, f: x + f(x), nn.Linear(shape[-1], shape[-1]))


@step
def concatenate(draw: Draw, shape: Shape) -> nn.Module | None:
    dim = an_axis(draw, shape)
    if dim is None:
        return None
    layer = nn.Linear(shape[-1], shape[-1])
    return With(f"cat([x, f(x)], {dim})", lambda x, f: torch.cat([x, f(x)], dim), layer)


@step
def stack(draw: Draw, shape: Shape) -> nn.Module:
    dim = draw(st.integers(1, len(shape)))
    layer = nn.Linear(shape[-1], shape[-1])
    return With(f"stack([x, f(x)], {dim})", lambda x, f: torch.stack([x, f(x)], dim), layer)


@step
def split(draw: Draw, shape: Shape) -> nn.Module | None:
    """Parts along a dimension, each with its own activation, in another order."""
    dim = an_axis(draw, shape, of=lambda n: n > 1)
    if dim is None:
        return None
    at = draw(st.integers(1, shape[dim] - 1))
    swap = draw(st.booleans())

    def function(x: Tensor) -> Tensor:
        first, second = x.split([at, x.shape[dim] - at], dim)
        parts = [first.tanh(), second.sin()]
        return torch.cat(parts[::-1] if swap else parts, dim)

    return Do(f"split at {at} along {dim}{', swapped' if swap else ''}", function)


@step
def overlap(draw: Draw, shape: Shape) -> nn.Module | None:
    """Two slices that overlap, added or side by side."""
    dim = an_axis(draw, shape, of=lambda n: n > 2)
    if dim is None:
        return None
    size = shape[dim]
    length = draw(st.integers(size // 2 + 1, size - 1))
    add = draw(st.booleans())

    def function(x: Tensor) -> Tensor:
        first, second = x.narrow(dim, 0, length), x.narrow(dim, size - length, length)
        return first + second.sin() if add else torch.cat([first, second], dim)

    return Do(f"{'add' if add else 'cat'} overlapping {length} along {dim}", function)


@step
def halves(draw: Draw, shape: Shape) -> nn.Module | None:
    dim = an_axis(draw, shape, of=lambda n: n % 2 == 0)
    if dim is None:
        return None
    operations = {
        "first + second": lambda a, b: a + b,
        "first * second": lambda a, b: a * b,
        "rotate": lambda a, b: torch.cat([-b, a], dim),
        "butterfly": lambda a, b: torch.cat([a + b, a - b], dim),
        "even and odd": lambda a, b: torch.stack([a, b], dim + 1).flatten(dim, dim + 1),
        "largest": torch.maximum,
    }
    name = draw(st.sampled_from(sorted(operations)))
    return Do(f"{name} along {dim}", lambda x: operations[name](*x.chunk(2, dim)))


@step
def broadcast(draw: Draw, shape: Shape) -> nn.Module | None:
    """The tensor against a part or a summary of itself."""
    dim = an_axis(draw, shape, batch=True)
    if dim is None:
        return None
    operations = {
        "x - mean": lambda x: x - x.mean(dim, keepdim=True),
        "x * first": lambda x: x * x.narrow(dim, 0, 1),
        "normalize": lambda x: F.normalize(x, dim=dim),
        "x * sum of all": lambda x: x * x.sum(),
        "x + max": lambda x: x + x.amax(dim, keepdim=True),
    }
    name = draw(st.sampled_from(sorted(operations)))
    return Do(f"{name} along {dim}", operations[name])


@step
def outer(draw: Draw, shape: Shape) -> nn.Module | None:
    if len(shape) != 2 or shape[1] > 6:
        return None
    operations = {
        "x_i - x_j": lambda x: x[:, :, None] - x[:, None],
        "x_i x_j": lambda x: x[:, :, None] * x[:, None],
        "softmax(x_i + x_j)": lambda x: (x[:, :, None] + x[:, None]).softmax(1),
        "gram": lambda x: (x.t() @ x).expand(len(x), -1, -1),
        "samples": lambda x: (x @ x.t()).softmax(-1) @ x,
    }
    name = draw(st.sampled_from(sorted(operations)))
    return Do(name, operations[name])


@step
def product(draw: Draw, shape: Shape) -> nn.Module | None:
    """A matrix times its transpose, per sample."""
    if len(shape) != 3:
        return None
    if draw(st.booleans()):
        return Do("x @ x.T", lambda x: x @ x.mT)
    return Do("softmax(x @ x.T) @ x", lambda x: (x @ x.mT).softmax(-1) @ x)
