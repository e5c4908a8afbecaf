"""Operations that move, repeat or drop elements, and those to which order matters."""

import torch
import torch.nn.functional as F
from hypothesis import strategies as st
from torch import nn

from .program import Do, Draw, Shape, an_axis, divisors, step


@step
def transpose(draw: Draw, shape: Shape) -> nn.Module | None:
    first, second = an_axis(draw, shape), an_axis(draw, shape)
    if first is None or second is None or first == second:
        return None
    return Do(f"transpose({first}, {second})", lambda x: x.transpose(first, second))


@step
def flatten(draw: Draw, shape: Shape) -> nn.Module | None:
    if len(shape) < 3:
        return None
    start = draw(st.integers(1, len(shape) - 2))
    stop = draw(st.integers(start + 1, len(shape) - 1))
    return nn.Flatten(start, stop)


@step
def unflatten(draw: Draw, shape: Shape) -> nn.Module | None:
    dim = an_axis(draw, shape, of=lambda n: n > 3)
    if dim is None:
        return None
    outer = draw(st.sampled_from(divisors(shape[dim])))
    return nn.Unflatten(dim, (outer, shape[dim] // outer))


@step
def regroup(draw: Draw, shape: Shape) -> nn.Module | None:
    """A reshape that need not respect any boundary."""
    total = torch.Size(shape[1:]).numel()
    outer = draw(st.sampled_from(divisors(total)))
    return Do(f"reshape(_, {outer}, {total // outer})", lambda x: x.reshape(len(x), outer, -1))


@step
def regroup_with_the_batch(draw: Draw, shape: Shape) -> nn.Module | None:
    """There and back through a shape that mixes samples and channels, with something in between."""
    dim = draw(st.sampled_from([0, 1]))
    total = torch.Size(shape).numel()
    outer = draw(st.sampled_from([d for d in divisors(total) if d <= 16]))
    inside = draw(st.sampled_from(["softmax", "tanh", "mean"]))

    def function(x):
        y = x.reshape(outer, -1)
        if inside == "mean":
            y = y - y.mean(dim, keepdim=True)
        return (y.softmax(dim) if inside == "softmax" else y.tanh()).reshape(x.shape)

    return Do(f"{inside}({dim}) on reshape({outer}, _)", function)


@step
def cut(draw: Draw, shape: Shape) -> nn.Module | None:
    dim = an_axis(draw, shape, of=lambda n: n > 1)
    if dim is None:
        return None
    start = draw(st.integers(0, shape[dim] - 1))
    stop = draw(st.integers(start + 1, shape[dim]))
    pace = draw(st.sampled_from([1, 1, 2, 3]))
    where = (*[slice(None)] * dim, slice(start, stop, pace))
    return Do(f"x[{start}:{stop}:{pace}] along {dim}", lambda x: x[where])


@step
def pick(draw: Draw, shape: Shape) -> nn.Module | None:
    dim = an_axis(draw, shape)
    if dim is None or len(shape) < 3:
        return None
    index = draw(st.integers(0, shape[dim] - 1))
    return Do(f"select({dim}, {index})", lambda x: x.select(dim, index))


@step
def by_index(draw: Draw, shape: Shape) -> nn.Module | None:
    dim = an_axis(draw, shape, batch=True)
    if dim is None:
        return None
    length = shape[dim] if dim == 0 else draw(st.integers(1, shape[dim] + 1))
    index = torch.tensor([draw(st.integers(0, shape[dim] - 1)) for _ in range(length)])
    return Do(f"index_select({dim}, {index.tolist()})", lambda x: x.index_select(dim, index))


@step
def ordered(draw: Draw, shape: Shape) -> nn.Module | None:
    dim = an_axis(draw, shape, batch=True)
    if dim is None:
        return None
    operations = {
        "cumsum": lambda x: x.cumsum(dim),
        "roll": lambda x: x.roll(1, dim),
        "flip": lambda x: x.flip(dim),
        "x + flip": lambda x: x + x.flip(dim),
        "x + roll": lambda x: x + x.roll(1, dim),
        "cummax": lambda x: x.cummax(dim).values,
        "sort": lambda x: x.sort(dim).values,
        "tril": lambda x: x.tril() if x.dim() > 1 else x,
    }
    name = draw(st.sampled_from(sorted(operations)))
    return Do(f"{name} along {dim}", operations[name])


@step
def repeat(draw: Draw, shape: Shape) -> nn.Module | None:
    dim = an_axis(draw, shape)
    if dim is None:
        return None
    count = draw(st.sampled_from([2, 3]))
    times = [count if d == dim else 1 for d in range(len(shape))]
    operations = {
        "repeat_interleave": lambda x: x.repeat_interleave(count, dim),
        "repeat": lambda x: x.repeat(times),
        "expand": lambda x: x.unsqueeze(dim).expand(*x.shape[:dim], count, *x.shape[dim:]),
        "repeat + interleave": lambda x: x.repeat(times) + x.repeat_interleave(count, dim),
        "repeat and fold": lambda x: x.repeat(times).unflatten(dim, (-1, count)).amax(dim + 1),
    }
    name = draw(st.sampled_from(sorted(operations)))
    return Do(f"{name}({count}) along {dim}", operations[name])


@step
def shuffle(draw: Draw, shape: Shape) -> nn.Module | None:
    dim = an_axis(draw, shape, of=lambda n: n > 3)
    if dim is None:
        return None
    groups = draw(st.sampled_from(divisors(shape[dim])))

    def function(x):
        return x.unflatten(dim, (groups, -1)).transpose(dim, dim + 1).flatten(dim, dim + 1)

    return Do(f"shuffle {groups} groups along {dim}", function)


@step
def pad(draw: Draw, shape: Shape) -> nn.Module | None:
    amounts = [draw(st.integers(0, 1)) for _ in range(2 * draw(st.integers(1, len(shape) - 1)))]
    return Do(f"pad({amounts})", lambda x: F.pad(x, amounts))


@step
def constant(draw: Draw, shape: Shape) -> nn.Module | None:
    """Arithmetic with a constant that varies along one dimension."""
    dim = an_axis(draw, shape, batch=True)
    if dim is None:
        return None
    levels = torch.tensor([draw(st.sampled_from([1.0, 2.0])) for _ in range(shape[dim])])
    laid = levels.view([-1 if d == dim else 1 for d in range(len(shape))])
    return Do(f"x * {levels.tolist()} along {dim}", lambda x: x * laid.to(x.dtype))
