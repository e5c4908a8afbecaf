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
    """Choose scales, signs and phases of the units of each network at random, as `scaling.sample` does.

    >>> import graph_metanetworks as gmn
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))
    >>> graph = gmn.trace(model, torch.randn(1, 2))
    >>> stack = gmn.collate([(graph, model.state_dict())] * 4).stacks[0]
    >>> rescaled = rescaled_stack(graph.scaling, stack.weights, torch.Generator().manual_seed(0))
    >>> torch.equal(rescaled["2.weight"].abs(), stack.weights["2.weight"].abs())  # tanh has signs only
    True
    """
    if not (scaling.num_scales or scaling.num_signs or scaling.num_phases):
        return dict(weights)
    scaled, signed = scaling.scaled, scaling.signed
    count = next(iter(weights.values())).shape[1]
    options = {"generator": generator, "dtype": torch.float64, "device": "cpu"}
    logarithms = spread * torch.randn(scaled.solution.free, count, **options)
    signs = (torch.rand(signed.solution.free, count, **options) < 0.5).double()
    scale = np.exp(scaled.solution.values(logarithms.numpy()))  # [unknowns, networks]
    odd = signed.solution.values(signs.numpy())
    turns = odd - 2 * (torch.rand(odd.shape, **options).numpy() < 0.5)  # whole periods change nothing
    result = dict(weights)
    for name in weights.keys() & scaled.parameters.keys():
        factor = _factors(scaled, name, scale) * _factors(signed, name, 1 - 2 * odd)
        changed = weights[name].double() * factor[..., None].to(weights[name].device)
        if name in scaling.phases:
            phase = scaling.phases[name]
            shift = torch.from_numpy(turns[phase.parity] * (pi / phase.frequency)[:, None])
            changed[torch.from_numpy(phase.elements).to(changed.device)] += shift[..., None].to(changed)
        result[name] = changed.to(weights[name].dtype)
    return result


def _factors(units: Units, name: str, values: np.ndarray) -> Tensor:
    """Return the factor of each element. [unknowns, networks] -> [elements, networks]"""
    own = units.parameters[name]
    total = torch.ones([1] * len(own) + [1], dtype=torch.float64)
    for dimension, unknowns in enumerate(own):
        shape = [-1 if place == dimension else 1 for place in range(len(own))]
        total = total * torch.from_numpy(values[unknowns]).view(*shape, values.shape[1])
    return total.reshape(-1, values.shape[1])
