"""Programs of steps, and the registry that collects the steps."""

from collections.abc import Callable
from math import prod
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor, nn

from support.menagerie.randomise import randomise

Draw = Callable[[st.SearchStrategy], Any]
Shape = tuple[int, ...]
Step = Callable[[Draw, Shape], nn.Module | None]

STEPS: list[Step] = []
BATCH = 3
LARGEST = 72  # elements of one sample
SIZES = st.sampled_from([1, 2, 3, 4, 6, 8])


def step(function: Step) -> Step:
    STEPS.append(function)
    return function


class Do(nn.Module):
    """A tensor function that prints as what it does."""

    def __init__(self, text: str, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.text, self.function = text, function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)

    def extra_repr(self) -> str:
        return self.text


class With(nn.Module):
    """A function of a tensor and of modules or parameters."""

    def __init__(self, text: str, function: Callable[..., Tensor], *owned: nn.Module | Tensor) -> None:
        super().__init__()
        self.text, self.function = text, function
        self.modules_ = nn.ModuleList(m for m in owned if isinstance(m, nn.Module))
        self.parameters_ = nn.ParameterList(p for p in owned if isinstance(p, Tensor))

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, *self.modules_, *self.parameters_)

    def extra_repr(self) -> str:
        return self.text


def an_axis(draw: Draw, shape: Shape, *, batch: bool = False, of: Callable[[int], bool] = bool) -> int | None:
    """A dimension whose size qualifies; the batch only if asked for."""
    found = [d for d in range(0 if batch else 1, len(shape)) if of(shape[d])]
    return draw(st.sampled_from(found)) if found else None


def divisors(size: int) -> list[int]:
    """Proper divisors where there are any."""
    proper = [d for d in range(2, size) if size % d == 0]
    return proper or [1, size]


def output_shape(module: nn.Module, shape: Shape) -> Shape:
    with torch.no_grad():
        return tuple(module.eval()(torch.zeros(shape)).shape)


@st.composite
def networks(draw: Draw, most: int = 6) -> tuple[nn.Module, Tensor]:
    """A random network and an input for it."""
    rank = draw(st.sampled_from([1, 1, 2, 2, 3]))
    shape = (BATCH, *(draw(st.sampled_from([2, 3, 4, 6])) for _ in range(rank)))
    seed = draw(st.integers(0, 2**16))
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(shape, generator=generator)
    wanted = draw(st.integers(2, most))
    steps: list[nn.Module] = [nn.Linear(shape[-1], draw(st.sampled_from([4, 6, 8])))]
    shape = (*shape[:-1], steps[0].out_features)
    for _ in range(4 * most):  # most tries fit
        if len(steps) > wanted:
            break
        module = draw(st.sampled_from(STEPS))(draw, shape)
        new = shape if module is None else output_shape(module, shape)
        fits = new[0] == BATCH and 1 < prod(new[1:]) <= LARGEST and len(new) <= 5
        if module is not None and fits:
            steps.append(module)
            shape = new
    if draw(st.booleans()) or prod(shape[1:]) > 8:
        steps += [nn.Flatten(), nn.Linear(prod(shape[1:]), 2)]
    model = nn.Sequential(*steps)
    randomise(model, generator=generator)
    return model.eval(), x
