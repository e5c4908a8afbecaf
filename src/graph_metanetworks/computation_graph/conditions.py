"""The three conditions of a neural DAG automorphism (appendix B.2), as stated in the paper."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from graph_metanetworks.computation_graph.graph import ComputationGraph

NAMES = ("edges", "labels", "sharing")


class Conditions:
    """Check permutations of a computation graph's nodes, many at a time.

    Edges: `(phi(i), phi(j))` is an edge if and only if `(i, j)` is one. It is enough that edges go to edges:
    the permutation of pairs is one to one, so no other pair can go to an edge.

    Labels: input, output and bias nodes are fixed. The paper has one nonlinearity for all hidden nodes; here
    a hidden node must go to one with the same.

    Sharing: weights that are constrained to be equal go to weights that are constrained to be equal. A weight
    that is constrained to be 1 (a residual edge) goes to one that is constrained to be 1.
    """

    def __init__(self, graph: ComputationGraph) -> None:
        self.graph = graph
        self._pairs, self._order = (graph.target * graph.num_nodes + graph.source).sort()

    @cached_property
    def _fixed(self) -> Tensor:
        return self.graph.of_kind("input", "output", "bias").nonzero()[:, 0]

    @cached_property
    def first_of_class(self) -> Tensor:
        """For each edge, the first edge that shares its weight. [E]"""
        classes, number = self.graph.sharing.unique(return_inverse=True)
        edges = torch.arange(self.graph.num_edges)
        first = torch.full((len(classes),), self.graph.num_edges).scatter_reduce(0, number, edges, "amin")
        return first[number]

    def failed(self, permutation: Tensor) -> tuple[str, ...]:
        """Return the conditions that a permutation does not meet."""
        size = self.graph.num_nodes
        if not torch.equal(permutation.sort().values, torch.arange(size)):
            raise ValueError(f"expected a permutation of range({size}), the nodes of {self.graph.name}.")
        met = self.met(permutation[None])[0].tolist()
        return tuple(name for name, good in zip(NAMES, met, strict=True) if not good)

    def met(self, permutations: Tensor) -> Tensor:
        """Return which conditions each permutation meets: edges, labels, sharing. [k, N] -> [k, 3] of bool"""
        images = self.edge_images(permutations)
        edges = (images >= 0).all(-1)
        return torch.stack([edges, self._labels(permutations), edges & self._sharing(images)], dim=-1)

    def edge_images(self, permutations: Tensor) -> Tensor:
        """Return the number of each edge's image, or -1 if there is none. [..., N] -> [..., E]"""
        graph = self.graph
        pairs = permutations[..., graph.target] * graph.num_nodes + permutations[..., graph.source]
        place = torch.searchsorted(self._pairs, pairs).clamp(max=graph.num_edges - 1)
        return torch.where(self._pairs[place] == pairs, self._order[place], -1)

    def _labels(self, permutations: Tensor) -> Tensor:
        kept = (permutations[..., self._fixed] == self._fixed).all(-1)
        functions = self.graph.node_activation
        return kept & (functions[permutations] == functions).all(-1)

    def _sharing(self, images: Tensor) -> Tensor:
        sharing = self.graph.sharing
        moved = sharing[images]
        tied = (moved == moved[..., self.first_of_class]).all(-1)
        constant = sharing >= self.graph.num_parameters
        fixed = torch.where(constant, moved == sharing, moved < self.graph.num_parameters)
        return tied & fixed.all(-1)
