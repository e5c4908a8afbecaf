"""Random scales, signs and phases of many networks of one architecture at once, each network its own."""

from __future__ import annotations

from collections.abc import Mapping
from math import pi

import numpy as np
import torch
from torch import Tensor

from graph_metanetworks.symmetry.scaling import Scaling
from graph_metanetworks.symmetry.units import Units

Weights = Mapping[str, Tensor]  # [elements, networks, channels]


def rescaled_stack(
    scaling: Scaling, weights: Weights, generator: torch.Generator | None = None, *, spread: float = 0.5
) -> dict[str, Tensor]:
    """Choose scales, signs and phases of the units of each network at random, as `scaling.sample` does."""
    if not (scaling.num_scales or scaling.num_signs or scaling.num_phases):
        return dict(weights)
    count = next(iter(weights.values())).shape[1]
    options = {"generator": generator, "dtype": torch.float64, "device": "cpu"}
    logarithms = spread * torch.randn(scaling.scaled.solution.free, count, **options)
    signs = (torch.rand(scaling.signed.solution.free, count, **options) < 0.5).double()
    scale = np.exp(scaling.scaled.solution.values(logarithms.numpy()))
    odd = scaling.signed.solution.values(signs.numpy())  # [unknowns, networks]
    turns = odd - 2 * (torch.rand(odd.shape, **options).numpy() < 0.5)
    result = dict(weights)
    for name, value in weights.items():
        factor = 1.0
        for units, own in ((scaling.scaled, scale), (scaling.signed, 1 - 2 * odd)):
            if name in units.parameters:
                factor = factor * _factors(units, name, own)
        if isinstance(factor, Tensor):
            changed = value.double() * factor.unsqueeze(-1).to(value.device)
            if name in scaling.phases:
                phase = scaling.phases[name]
                shift = torch.from_numpy(turns[phase.parity] * (pi / phase.frequency)[:, None])
                index = torch.from_numpy(phase.elements).to(value.device)
                changed = changed.index_add(
                    0, index, shift[..., None].expand(-1, -1, value.shape[2]).to(changed)
                )
            result[name] = changed.to(value.dtype)
    return result


def _factors(units: Units, name: str, values: np.ndarray) -> Tensor:
    """Return the factor of each element. [unknowns, networks] -> [elements, networks]"""
    own = units.parameters[name]
    total = torch.ones([1] * len(own) + [1], dtype=torch.float64)
    for dimension, unknowns in enumerate(own):
        shape = [-1 if place == dimension else 1 for place in range(len(own))]
        total = total * torch.from_numpy(values[unknowns]).view(*shape, values.shape[1])
    return total.reshape(-1, values.shape[1])
