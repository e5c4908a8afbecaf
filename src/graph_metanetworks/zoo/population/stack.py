"""Stack networks of one architecture into one module, with the same `forward` over stacked layers.

This works if `forward` counts axes from the end, so that one more leading axis makes no difference. A class
declares this with `stackable = True`.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import nn

from graph_metanetworks.zoo.population.layers import POINTWISE, STACKED, Dropout
from graph_metanetworks.zoo.population.stacked import NotStackable

CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)


def stack(networks: Sequence[nn.Module]) -> nn.Module:
    """Return one module for all networks, from `[1, batch, ...]` to `[G, batch, ...]`.

    >>> networks = [nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)) for _ in range(5)]
    >>> stack(networks)(torch.randn(1, 7, 3)).shape
    torch.Size([5, 7, 2])
    """
    first = networks[0]
    if type(first) in STACKED:
        return STACKED[type(first)](networks)
    check_same_attributes(networks)
    if isinstance(first, POINTWISE):
        return first
    if not getattr(type(first), "stackable", False) and type(first) not in CONTAINERS:
        raise NotStackable(f"{type(first).__name__} is not declared stackable")
    _check_tensors(networks)
    stacked = copy.copy(first)
    stacked._modules = {
        name: stack([network.get_submodule(name) for network in networks])
        for name, _ in first.named_children()
    }
    return stacked


def _check_tensors(networks: Sequence[nn.Module]) -> None:
    """Allow constant buffers in modules that are not layers of torch, but no parameters."""
    first = networks[0]
    if any(True for _ in first.parameters(recurse=False)):
        raise NotStackable(f"{type(first).__name__} has parameters outside the layers of torch")
    for name, constant in first.named_buffers(recurse=False):
        if not all(torch.equal(constant, network.get_buffer(name)) for network in networks):
            raise NotStackable(f"{type(first).__name__}.{name} differs between networks")


def check_same_attributes(networks: Sequence[nn.Module]) -> None:
    """Require equal attributes apart from weights, because the code of one network runs for all."""
    first = _plain_attributes(networks[0])
    for network in networks[1:]:
        if _plain_attributes(network) != first:
            raise NotStackable(f"{type(network).__name__} modules differ in {first} and {vars(network)}")


def _plain_attributes(module: nn.Module) -> dict[str, object]:
    return {name: value for name, value in vars(module).items() if not name.startswith("_")}


def set_generators(population: nn.Module, generators: Sequence[torch.Generator]) -> None:
    """Set the generators of dropout masks, one per network."""
    for module in population.modules():
        if isinstance(module, Dropout):
            module.generators = generators
