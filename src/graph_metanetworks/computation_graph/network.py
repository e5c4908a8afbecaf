"""A computation graph as a parameter graph with repeated edges, so that metanetworks run on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from graph_metanetworks.graph.elements import Elements
from graph_metanetworks.graph.parameter_graph import ParameterGraph
from graph_metanetworks.graph.parts import EdgeBlock, NodeGroup, Parameter
from graph_metanetworks.symmetry.axes import fixed
from graph_metanetworks.symmetry.group import Symmetry

if TYPE_CHECKING:
    from graph_metanetworks.computation_graph.graph import ComputationGraph

KINDS = {"input": "input", "hidden": "neuron", "output": "output", "bias": "linear bias"}
CONSTANTS = "constants"  # name of constants other than 1 among the weights


def as_network(graph: ComputationGraph) -> tuple[ParameterGraph, dict[str, Tensor]]:
    """Return the graph and its weights in float64, ready for `gmn.collate`.

    The first edge of each sharing class owns the weight; the others are aliases. Edges are in the order of
    `edge_order`. The graph claims no symmetry, because that of a computation graph cannot be written in axes.
    """
    weights = graph.tensors()
    parameters = [Parameter(p.name, p.shape, torch.float64) for p in graph.parameters]
    if bool((graph.constants != 1).any()):
        weights[CONSTANTS] = graph.constants
        parameters.append(Parameter(CONSTANTS, tuple(graph.constants.shape), torch.float64))
    symmetry = Symmetry(
        {p.name: tuple(fixed(length) for length in p.shape) for p in parameters},
        tuple((layer.start, fixed(layer.size)) for layer in graph.layers),
        graph.num_nodes,
    )
    blocks = tuple(_block(graph, *part) for part in _parts(graph))
    return ParameterGraph(_groups(graph), blocks, tuple(parameters), symmetry, name=graph.name), weights


def edge_order(graph: ComputationGraph) -> Tensor:
    """Return the number in the computation graph of each edge of `as_network`. [E]"""
    return torch.cat([edges for *_, edges in _parts(graph)])


def _groups(graph: ComputationGraph) -> tuple[NodeGroup, ...]:
    return tuple(
        NodeGroup(
            name=layer.name,
            kind=KINDS[layer.kind],
            size=layer.size,
            start=layer.start,
            depth=int(graph.node_depth[layer.nodes].max()),
            activation=layer.activation.name,
            indexed=layer.kind in ("input", "output"),
        )
        for layer in graph.layers
    )


def _parts(graph: ComputationGraph) -> list[tuple[Parameter | None, bool, Tensor]]:
    """Group edges by parameter (None: constants), the owners of weights separately from aliases."""
    first = torch.zeros(graph.num_edges, dtype=torch.bool)
    first[graph.conditions.first_of_class] = True
    parts: list[tuple[Parameter | None, bool, Tensor]] = []
    start = 0
    for parameter in graph.parameters:
        own = (graph.sharing >= start) & (graph.sharing < start + parameter.numel)
        parts += [(parameter, owner, (own & (first == owner)).nonzero()[:, 0]) for owner in (True, False)]
        start += parameter.numel
    parts.append((None, True, (graph.sharing >= start).nonzero()[:, 0]))
    return [part for part in parts if len(part[-1])]


def _block(graph: ComputationGraph, parameter: Parameter | None, is_owner: bool, edges: Tensor) -> EdgeBlock:
    shape = (len(edges),)
    ends = {"shape": shape, "source": graph.source[edges], "target": graph.target[edges]}
    if parameter is None:
        if not bool((graph.constants != 1).any()):
            return EdgeBlock(kind="residual", **ends)
        listed = graph.sharing[edges] - graph.num_parameters
        return EdgeBlock(
            kind="residual",
            parameter=CONSTANTS,
            is_owner=False,
            elements=Elements(shape, listed=listed),
            **ends,
        )
    listed = graph.sharing[edges] - graph.starts()[parameter.name]
    bias = bool(graph.of_kind("bias")[graph.source[edges]].all())
    return EdgeBlock(
        kind="linear bias" if bias else "linear weight",
        parameter=parameter.name,
        is_owner=is_owner,
        elements=Elements(shape, listed=listed),
        **ends,
    )
