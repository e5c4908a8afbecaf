"""Fit INRs of any kind, all of one architecture."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from graph_metanetworks.zoo.inr.conventions import Conventions
from graph_metanetworks.zoo.inr.encoded import EncodedArchitecture, EncodedInr
from graph_metanetworks.zoo.inr.fitting import Fit, FitOptions
from graph_metanetworks.zoo.inr.grid import Grid
from graph_metanetworks.zoo.inr.kinds import InrArchitecture
from graph_metanetworks.zoo.inr.population import fit_population
from graph_metanetworks.zoo.inr.siren import initial_weights
from graph_metanetworks.zoo.inr.stacked_fitting import fit_stacked


def fit(
    architecture: InrArchitecture,
    conventions: Conventions,
    grid: Grid,
    seeds: Sequence[int],
    targets: Tensor,  # [networks, outputs, points]
    options: FitOptions,
    *,
    progress: Callable[[float], None] = lambda fraction: None,
) -> list[Fit]:
    """Fit network `k`, with initial weights drawn from `seeds[k]`, to `targets[k]`."""
    if isinstance(architecture, EncodedArchitecture):
        networks = [_drawn(architecture, conventions, seed) for seed in seeds]
        return fit_stacked(networks, grid.coordinates, targets, options, progress=progress)
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    initial = [initial_weights(architecture, conventions, generator) for generator in generators]
    return fit_population(architecture, conventions, grid, initial, targets, options, progress=progress)


def _drawn(architecture: EncodedArchitecture, conventions: Conventions, seed: int) -> EncodedInr:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return architecture.build(conventions)
