"""Weights with which the units to be removed have no influence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from graph_metanetworks.graph.parameter_graph import ParameterGraph
from graph_metanetworks.symmetry.axes import Axis, variables
from graph_metanetworks.symmetry.subsets import Subset


def zeroed(graph: ParameterGraph, subset: Subset, weights: Mapping[str, Any]) -> dict[str, Tensor]:
    """Return the weights with zeros on all edges that leave the units to be removed.

    Units without outgoing weights (queries and keys, whose products go into a softmax) get zeros everywhere.
    """
    result = {name: weights[name].detach().clone() for name in _moved(graph, subset)}
    removed = torch.zeros(graph.symmetry.num_nodes, dtype=torch.bool)
    for start, dim in graph.symmetry.nodes:
        if subset.cuts([dim]):
            mask = ~subset.mask([dim])
            removed[start : start + len(mask)] = mask
    outgoing: set[str] = set()
    for block in graph.blocks:
        leaving = removed[block.source] if block.parameter else None
        if leaving is None or block.parameter not in result or not bool(leaving.any()):
            continue
        assert block.elements is not None
        flat = result[block.parameter].reshape(-1)
        own = block.elements.view(flat)  # of the tensor itself, or a list of its elements
        block.elements.write(flat, own.masked_fill_(leaving.to(flat.device), 0))
        outgoing.add(block.parameter)
    for axis in subset.kept:
        places = {name for name, dims in graph.symmetry.parameters.items() if _along(axis, dims)}
        if not places & outgoing:
            for name in places & set(result):
                own = subset.restricted([axis])
                result[name][~own.mask(graph.symmetry.parameters[name])] = 0
    return _with_ties(graph, weights, result)


def disturbed(
    graph: ParameterGraph, subset: Subset, weights: Mapping[str, Tensor], generator: torch.Generator
) -> dict[str, Tensor]:
    """Return the weights with other values wherever a unit to be removed has a weight that is not zero."""
    result = {}
    for name in _moved(graph, subset):
        own = weights[name].detach()
        moved = own
        for dim, length in enumerate(own.shape):
            factors = torch.rand(length, generator=generator, dtype=own.dtype) + 0.5
            moved = moved * factors.view([-1 if d == dim else 1 for d in range(own.dim())])
        result[name] = torch.where(subset.mask(graph.symmetry.parameters[name]), own, moved)
    return _with_ties(graph, weights, result)


def _moved(graph: ParameterGraph, subset: Subset) -> list[str]:
    dims = graph.symmetry.parameters
    return [p.name for p in graph.parameters if subset.cuts(dims[p.name])]


def _along(axis: Axis, dims: Sequence) -> bool:
    return any(own is axis for dim in dims for own in variables(dim))


def _with_ties(
    graph: ParameterGraph, weights: Mapping[str, Any], changed: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    result = dict(weights)
    for parameter in graph.parameters:
        if parameter.name in changed:
            result |= {name: changed[parameter.name] for name in (parameter.name, *parameter.tied)}
    return result
