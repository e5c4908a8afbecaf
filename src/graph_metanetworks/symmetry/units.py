"""Unknown scales and signs of a network's units, and the phases of its sine units."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from graph_metanetworks.symmetry.equations import Solution

Unknowns = tuple[NDArray[np.int64], ...]  # of each dimension, one for each index; 0 where nothing is scaled


@dataclass(frozen=True, eq=False)
class Units:
    """The unknown scales along each dimension of each parameter, and the equations between them, solved."""

    parameters: Mapping[str, Unknowns]
    solution: Solution
    count: int  # how many may be chosen freely, not counting phases and choices that change no weight

    def along(self, name: str, dimension: int) -> bool:
        """Return whether anything varies along a dimension of a parameter."""
        return self.solution.matrix[self.parameters[name][dimension]].nnz > 0


@dataclass(frozen=True, eq=False)
class Phase:
    """Elements of a bias inside a sine: adding a multiple of pi / frequency at most flips the sine's sign."""

    elements: NDArray[np.int64]  # of the flattened bias
    parity: NDArray[np.int64]  # of each, the unknown that is 1 for odd multiples, among those of signs
    frequency: NDArray[np.float64]  # the sine is that of frequency * (bias + ...)
