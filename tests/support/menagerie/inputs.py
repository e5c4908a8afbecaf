"""Example inputs, described where a network is registered and drawn when it is called.

>>> args, kwargs = inputs(normal(2, 5), mask=fixed(None))()
>>> args[0].shape, kwargs
(torch.Size([2, 5]), {'mask': None})
"""

from collections.abc import Callable

import torch
from torch import Generator, Tensor

Draw = Callable[[Generator], object]


def inputs(*args: Draw, **kwargs: Draw) -> Callable[[], tuple[tuple, dict]]:
    """Return a function drawing the same (args, kwargs) every time it is called."""

    def example() -> tuple[tuple, dict]:
        generator = torch.Generator().manual_seed(1)
        positional = tuple(draw(generator) for draw in args)
        return positional, {name: draw(generator) for name, draw in kwargs.items()}

    return example


def normal(*shape: int) -> Draw:
    """Draw a float tensor from the normal distribution."""
    return lambda generator: torch.randn(shape, generator=generator)


def uniform(*shape: int) -> Draw:
    """Draw a float tensor uniformly from [0, 1)."""
    return lambda generator: torch.rand(shape, generator=generator)


def tokens(batch: int, length: int, vocabulary: int, *, first: int = 0) -> Draw:
    """Draw token rows [batch, length] in [first, vocabulary), without repetition in a row."""

    def row(generator: Generator) -> Tensor:
        return first + torch.randperm(vocabulary - first, generator=generator)[:length]

    return lambda generator: torch.stack([row(generator) for _ in range(batch)])


def fixed(value: object) -> Draw:
    """Pass the value itself."""
    return lambda generator: value
