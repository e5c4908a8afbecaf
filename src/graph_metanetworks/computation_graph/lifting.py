"""Lift automorphisms of a parameter graph to the computation graph (appendix B.5).

A neuron of the computation graph lies over the node of the parameter graph that its weights lead to. A
permutation of the parameter graph's nodes is lifted by permuting the sets of neurons that lie over them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from graph_metanetworks.computation_graph.graph import ComputationGraph
from graph_metanetworks.errors import TraceError
from graph_metanetworks.graph.parameter_graph import ParameterGraph
from graph_metanetworks.graph.parts import Parameter

UNKNOWN = -1


class NoProjection(TraceError):
    """Neurons of the computation graph do not project onto nodes of the parameter graph."""


@dataclass(frozen=True, eq=False)
class Lifting:
    """Lift permutations of a parameter graph's nodes to the computation graph of the same network."""

    parameter_graph: ParameterGraph
    graph: ComputationGraph

    @cached_property
    def projection(self) -> Tensor:
        """The node of the parameter graph under each neuron. [N]

        An edge with a weight determines it for both ends, because the same weight lies on one edge of the
        parameter graph. Edges with constants (pooling, residual sums) pass it on where no weight does. Inputs
        that no weight sees stay unknown; they are fixed.
        """
        under = torch.full((self.graph.num_nodes,), UNKNOWN)
        for neurons, nodes in self._weighted_ends():
            under[neurons] = torch.where(under[neurons] == UNKNOWN, nodes, under[neurons])
            if bool((under[neurons] != nodes).any()):
                raise NoProjection(
                    f"weights at a neuron of {self.graph.name} lie at different nodes of the parameter graph."
                )
        self._pass_on(under)
        if bool((under == UNKNOWN)[self.graph.of_kind("hidden")].any()):
            raise NoProjection(
                f"hidden neurons of {self.graph.name} lie over no node of its parameter graph."
            )
        return under

    def lift(self, nodes: Tensor) -> Tensor:
        """Lift a permutation of the parameter graph's nodes to one of neurons.

        The neurons over a node go to those over its image, in the order in which they were computed.
        """
        over = list(zip(self.projection.tolist(), self._places.tolist(), strict=True))
        where = {place: neuron for neuron, place in enumerate(over)}
        try:
            images = [
                neuron if node == UNKNOWN else where[int(nodes[node]), at]
                for neuron, (node, at) in enumerate(over)
            ]
        except KeyError:
            raise NoProjection(
                f"unequal numbers of neurons of {self.graph.name} lie over equivalent nodes."
            ) from None
        return torch.tensor(images)

    @cached_property
    def _places(self) -> Tensor:
        """The index of each neuron among those over the same node. [N]"""
        seen: Counter[int] = Counter()
        places = []
        for node in self.projection.tolist():
            places.append(seen[node])
            seen[node] += 1
        return torch.tensor(places)

    def _weighted_ends(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield neurons at the ends of weights, and the nodes at the ends of the same weights."""
        graph = self.graph
        for parameter in graph.parameters:
            start = graph.starts()[parameter.name]
            edges = ((graph.sharing >= start) & (graph.sharing < start + parameter.numel)).nonzero()[:, 0]
            uses, found = self._uses(parameter), graph.node_layer[graph.target[edges]]
            layers = found.unique().tolist()
            if len(uses) not in (1, len(layers)):
                raise NoProjection(
                    f"'{parameter.name}' of {graph.name} is used {len(uses)} times in the parameter graph, "
                    f"but {len(layers)} times in the computation graph."
                )
            for number, layer in enumerate(layers):
                own = edges[found == layer]
                for end, nodes in zip((graph.source, graph.target), uses[number % len(uses)], strict=True):
                    yield end[own], nodes[graph.sharing[own] - start]

    def _uses(self, parameter: Parameter) -> list[Tensor]:
        """Return source and target of each element, `[2, elements]`, for each use of a parameter."""
        uses: list[Tensor] = []
        for block in self.parameter_graph.blocks:
            if block.parameter != parameter.name or block.elements is None:
                continue
            elements = block.elements.index().reshape(-1)
            ends = torch.stack([end.expand(block.shape).reshape(-1) for end in (block.source, block.target)])
            free = [use for use in uses if bool((use[:, elements] == UNKNOWN).all())]
            if not free:
                free = [torch.full((2, parameter.numel), UNKNOWN)]
                uses += free
            free[0][:, elements] = ends
        return uses

    def _pass_on(self, under: Tensor) -> None:
        """Project sums onto the node of their deepest term, along edges with constants."""
        graph = self.graph
        constant = graph.sharing >= graph.num_parameters
        source, target = graph.source[constant], graph.target[constant]
        order = torch.argsort(graph.node_depth[source], stable=True)  # of several terms the deepest is last
        order = order[torch.argsort(graph.node_depth[target[order]], stable=True)]
        unknown = under == UNKNOWN
        for term, neuron in zip(source[order].tolist(), target[order].tolist(), strict=True):
            if unknown[neuron]:
                under[neuron] = under[term]
