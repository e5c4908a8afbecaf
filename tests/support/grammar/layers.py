"""Layers with parameters, norms and activations."""

import torch
import torch.nn.functional as F
from hypothesis import strategies as st
from torch import Tensor, nn

from .program import SIZES, Do, Draw, Shape, With, an_axis, divisors, step


@step
def linear(draw: Draw, shape: Shape) -> nn.Module:
    return nn.Linear(shape[-1], draw(SIZES), bias=draw(st.booleans()))


@step
def linear_along(draw: Draw, shape: Shape) -> nn.Module | None:
    dim = an_axis(draw, shape)
    if dim is None:
        return None
    layer = nn.Linear(shape[dim], draw(SIZES))
    return With(f"linear along {dim}", lambda x, f: f(x.movedim(dim, -1)).movedim(-1, dim), layer)


@step
def linear_by_hand(draw: Draw, shape: Shape) -> nn.Module:
    """The weight in odd forms: transposed, flat, cut in two, or as the sum of two."""
    inner, outer = shape[-1], draw(SIZES)
    form = draw(st.sampled_from(["transposed", "flat", "halves", "sum", "einsum", "lowrank"]))
    if form == "flat":
        weight = torch.randn(inner * outer)
        return With("x @ flat", lambda x, w: x @ w.view(inner, outer), nn.Parameter(weight))
    if form == "halves" and outer > 1:
        cut = draw(st.integers(1, outer - 1))
        weight = nn.Parameter(torch.randn(outer, inner))
        return With(
            f"cat(x @ w[:{cut}].T, x @ w[{cut}:].T)",
            lambda x, w: torch.cat([F.linear(x, w[:cut]), F.linear(x, w[cut:]).sin()], -1),
            weight,
        )
    weight = nn.Parameter(torch.randn(inner, outer))
    if form == "sum":
        other = nn.Parameter(torch.randn(outer, inner))
        return With("x @ (w + v.T)", lambda x, w, v: x @ (w + v.t()), weight, other)
    if form == "lowrank":
        down, up = nn.Parameter(torch.randn(inner, 2)), nn.Parameter(torch.randn(2, outer))
        return With("x @ (w + u @ v)", lambda x, w, u, v: x @ (w + u @ v), weight, down, up)
    if form == "einsum":
        return With("einsum(x, w)", lambda x, w: torch.einsum("b...i,io->b...o", x, w), weight)
    turned = nn.Parameter(torch.randn(outer, inner))
    return With("x @ w.T", lambda x, w: x @ w.mT, turned)


@step
def tied(draw: Draw, shape: Shape) -> nn.Module:
    """One weight forwards and backwards."""
    weight = nn.Parameter(torch.randn(shape[-1], draw(SIZES)))
    return With("tanh(x @ w) @ w.T", lambda x, w: torch.tanh(x @ w) @ w.t(), weight)


@step
def shared(draw: Draw, shape: Shape) -> nn.Module:
    """One layer applied twice."""
    layer = nn.Linear(shape[-1], shape[-1])
    between = draw(st.sampled_from([torch.tanh, lambda x: x, lambda x: F.softmax(x, -1)]))
    return With("f(act(f(x)))", lambda x, f: f(between(f(x))), layer)


@step
def convolution(draw: Draw, shape: Shape) -> nn.Module | None:
    if len(shape) not in (3, 4):
        return None
    channels = shape[1]
    groups = draw(st.sampled_from(divisors(channels)))
    outer = groups * draw(st.sampled_from([1, 2, 3]))
    kernel = draw(st.sampled_from([1, 2, 3]))
    if draw(st.booleans()):
        layer = (nn.Conv1d, nn.Conv2d)[len(shape) - 3]
        return layer(channels, outer, kernel, padding=1, groups=groups)
    layer = (nn.ConvTranspose1d, nn.ConvTranspose2d)[len(shape) - 3]
    return layer(channels, outer, kernel, groups=groups)


@step
def norm(draw: Draw, shape: Shape) -> nn.Module | None:
    channels = shape[1]
    found: list[nn.Module] = [nn.LayerNorm(shape[-1]), nn.RMSNorm(shape[-1]), nn.LayerNorm(shape[1:])]
    found.append(nn.GroupNorm(draw(st.sampled_from(divisors(channels))), channels))
    if len(shape) < 5:
        found.append((nn.BatchNorm1d, nn.BatchNorm1d, nn.BatchNorm2d)[len(shape) - 2](channels))
    if len(shape) in (3, 4) and shape[-1] > 1:
        found.append((nn.InstanceNorm1d, nn.InstanceNorm2d)[len(shape) - 3](channels, affine=True))
    return draw(st.sampled_from(found))


@step
def activation(draw: Draw, shape: Shape) -> nn.Module:
    found = [nn.Tanh(), nn.ReLU(), nn.GELU(), nn.Softplus(), nn.PReLU(), nn.PReLU(shape[1]), nn.Sigmoid()]
    return draw(st.sampled_from(found))


@step
def softmax(draw: Draw, shape: Shape) -> nn.Module | None:
    dim = an_axis(draw, shape, batch=True)
    log = draw(st.booleans())
    return None if dim is None else nn.LogSoftmax(dim) if log else nn.Softmax(dim)


@step
def recurrent(draw: Draw, shape: Shape) -> nn.Module | None:
    if len(shape) != 3:
        return None
    layer = draw(st.sampled_from([nn.LSTM, nn.GRU, nn.RNN]))
    options = {"num_layers": draw(st.sampled_from([1, 2])), "bidirectional": draw(st.booleans())}
    module = layer(shape[-1], draw(st.sampled_from([2, 3])), batch_first=True, **options)
    return With(f"{module}[0]", lambda x, f: f(x)[0], module)


@step
def scale(draw: Draw, shape: Shape) -> nn.Module:
    """A parameter that broadcasts along some dimensions."""
    sizes = [n if draw(st.booleans()) else 1 for n in shape[1:]]
    cut = draw(st.integers(0, len(sizes) - 1))
    weight = nn.Parameter(torch.randn(sizes[cut:]))
    if draw(st.booleans()):
        return With(f"x * w{sizes[cut:]}", lambda x, w: x * w, weight)
    return With(f"x + w{sizes[cut:]}", lambda x, w: x + w, weight)


@step
def gate(draw: Draw, shape: Shape) -> nn.Module | None:
    even = an_axis(draw, shape, of=lambda n: n % 2 == 0)
    if even is not None and draw(st.booleans()):
        return nn.GLU(even)
    layer = nn.Linear(shape[-1], shape[-1])
    return With("x * sigmoid(f(x))", lambda x, f: x * torch.sigmoid(f(x)), layer)


@step
def pool(draw: Draw, shape: Shape) -> nn.Module | None:
    dim = an_axis(draw, shape)
    if dim is None or len(shape) < 3:
        return None
    keep = draw(st.booleans())
    reductions: dict[str, object] = {
        "mean": Tensor.mean,
        "amax": Tensor.amax,
        "sum": Tensor.sum,
        "logsumexp": Tensor.logsumexp,
        "var": Tensor.var if shape[dim] > 1 else Tensor.mean,
    }
    name = draw(st.sampled_from(sorted(reductions)))
    return Do(f"{name}({dim}, {keep})", lambda x: reductions[name](x, dim=dim, keepdim=keep))  # type: ignore


@step
def window(draw: Draw, shape: Shape) -> nn.Module | None:
    """Pooling and interpolation over the last dimension."""
    if len(shape) != 3 or shape[-1] < 2:
        return None
    found = [nn.AvgPool1d(2), nn.MaxPool1d(2), nn.AdaptiveAvgPool1d(2), nn.Upsample(scale_factor=2)]
    return draw(st.sampled_from(found))
