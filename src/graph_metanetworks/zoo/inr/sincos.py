"""Sine and cosine of many angles at once, in less than two thirds of the time of `torch.sin` and `torch.cos`.

Angles are given in turns, so that the nearest whole number can be taken away exactly. What is left lies in
[-1/2, 1/2]; polynomials give the sine and the cosine of half of it, the double-angle formulas the rest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.polynomial import Chebyshev, Polynomial
from torch import Tensor

TERMS = 5  # of each polynomial: with them, rounding is all that is left of the error, which is below 1e-6


@dataclass(frozen=True, eq=False)
class _Powers:
    """A polynomial of degree four: two highest coefficients as numbers, the others as tensors."""

    highest: float
    next_to_it: float  # divided by the highest
    lower: list[Tensor]  # from the higher to the lower

    @classmethod
    def through(cls, values: np.ndarray) -> _Powers:
        """The polynomial in r² with these values at `SQUARES`."""
        fitted = Chebyshev.fit(SQUARES, values, TERMS - 1, domain=[0, 0.25]).convert(kind=Polynomial)
        *lower, second, first = fitted.coef.tolist()
        return cls(first, second / first, [torch.tensor(c, dtype=torch.float32) for c in reversed(lower)])

    def __call__(self, x: Tensor, *, out: Tensor) -> Tensor:
        """By Horner's rule, in one pass over memory for each power."""
        torch.add(x, self.next_to_it, out=out)
        scale = self.highest
        for coefficient in self.lower:
            torch.addcmul(coefficient, out, x, value=scale, out=out)
            scale = 1.0
        return out


SQUARES = 0.125 * (1 + np.cos(np.pi * (np.arange(TERMS) + 0.5) / TERMS))  # Chebyshev's points of [0, 1/4]
HALF_SINE = _Powers.through(np.pi * np.sinc(np.sqrt(SQUARES)))  # sin(πr) / r
TWICE_HALF_COSINE = _Powers.through(2 * np.cos(np.pi * np.sqrt(SQUARES)))  # 2 cos(πr)
ONE = torch.tensor(1.0)


def sine_and_cosine(turns: Tensor, *, sine: Tensor, cosine: Tensor, scratch: Tensor) -> None:
    """Write sin(2π turns) and cos(2π turns); `turns` and `scratch` are overwritten.

    >>> turns, sine, cosine, scratch = torch.tensor([1 / 6, -3.0]), *torch.empty(3, 2)
    >>> sine_and_cosine(turns, sine=sine, cosine=cosine, scratch=scratch)
    >>> sine.round(decimals=4).tolist(), cosine.round(decimals=4).tolist()
    ([0.866, 0.0], [0.5, 1.0])
    """
    if turns.dtype != torch.float32:  # the polynomials are made for its precision
        turns.mul_(2 * math.pi)
        torch.sin(turns, out=sine)
        torch.cos(turns, out=cosine)
        return
    torch.round(turns, out=scratch)
    rest = turns.sub_(scratch)
    square = torch.mul(rest, rest, out=scratch)
    half_sine = HALF_SINE(square, out=cosine).mul_(rest)
    TWICE_HALF_COSINE(square, out=sine).mul_(half_sine)  # sin 2x = 2 cos x sin x
    torch.addcmul(ONE, half_sine, half_sine, value=-2, out=cosine)  # cos 2x = 1 - 2 sin² x
