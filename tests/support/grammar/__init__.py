"""Random networks: programs of layers and tensor operations, drawn by hypothesis.

A step is a function `(draw, shape) -> nn.Module | None` that draws a module for a tensor of that shape, batch
first, or None where it does not apply. Steps print themselves, so that a failing example reads as a program.
"""

from . import attention, joining, layers, memory, moving  # noqa: F401  (importing registers steps)
from .program import networks

__all__ = ["networks"]
