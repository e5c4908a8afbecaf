"""All automorphisms of a computation graph, by exact search: refine colours, fix a node, try its images.

The search knows nothing of layers, channels or the tracer's symmetry, which are checked against it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from graph_metanetworks.computation_graph.graph import ComputationGraph

Colours = NDArray[np.int64]
_MIX = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, eq=False)
class AutomorphismGroup:
    """The group of a computation graph's automorphisms.

    >>> import torch, graph_metanetworks as gmn
    >>> mlp = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
    >>> group = AutomorphismGroup(gmn.computation_graph(mlp, (1, 2)))
    >>> group.order()
    6
    >>> group.graph.is_automorphism(group.sample(torch.Generator().manual_seed(0)))
    True
    """

    graph: ComputationGraph

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """Draw a uniformly random automorphism: node `i` goes to `result[i]`.

        It is uniform because each fixed node goes to any of its possible images with equal probability.
        """
        return next(self._extensions(self._start, self._start, generator))

    def order(self) -> int:
        """Return the number of automorphisms: the product of orbits along a chain of fixed nodes."""
        return prod(self._orbits())

    def _orbits(self) -> Iterator[int]:
        colours = self._start
        while True:
            node = _first_unsettled(colours)
            if node is None:
                return
            images = np.flatnonzero(colours == colours[node])
            fixed = self._refined_pair(colours, colours, node, node)
            assert fixed is not None
            yield sum(self._exists(colours, node, int(image)) for image in images)
            colours = fixed[0]

    def _exists(self, colours: Colours, node: int, image: int) -> bool:
        pair = self._refined_pair(colours, colours, node, image)
        return pair is not None and next(self._extensions(*pair, None), None) is not None

    def _extensions(
        self, before: Colours, after: Colours, generator: torch.Generator | None
    ) -> Iterator[Tensor]:
        """Yield automorphisms that map each colour of `before` to the same colour of `after`."""
        node = _first_unsettled(before)
        if node is None:
            found = np.empty(len(before), dtype=np.int64)
            found[np.argsort(before)] = np.argsort(after)
            permutation = torch.from_numpy(found)
            if self.graph.is_automorphism(permutation):
                yield permutation
            return
        images = np.flatnonzero(after == before[node])
        for choice in torch.randperm(len(images), generator=generator).tolist():
            pair = self._refined_pair(before, after, node, int(images[choice]))
            if pair is not None:
                yield from self._extensions(*pair, generator)

    # -------------------------------------------------------------- colours

    @cached_property
    def _edges(self) -> tuple[NDArray, NDArray, NDArray]:
        return self.graph.source.numpy(), self.graph.target.numpy(), self.graph.sharing.numpy()

    @cached_property
    def _classes(self) -> Colours:
        """First colours of sharing classes: a separate colour for each constant."""
        count = self.graph.num_parameters + len(self.graph.constants)
        return np.maximum(np.arange(count) - self.graph.num_parameters + 1, 0)

    @cached_property
    def _start(self) -> Colours:
        """First colours of nodes: unique for inputs, outputs and bias nodes, else one per nonlinearity."""
        graph = self.graph
        fixed = graph.of_kind("input", "output", "bias").numpy()
        first = np.where(fixed, np.arange(graph.num_nodes), -1 - graph.node_activation.numpy())
        (refined,) = self._refined([first])
        return refined

    def _refined_pair(
        self, before: Colours, after: Colours, node: int, image: int
    ) -> tuple[Colours, Colours] | None:
        """Return the colours after fixing that `node` goes to `image`; None if they show that it cannot."""
        pair = [before.copy(), after.copy()]
        pair[0][node] = pair[1][image] = before.max() + 1
        first, second = self._refined(pair)
        return (first, second) if np.array_equal(np.sort(first), np.sort(second)) else None

    def _refined(self, nodes: list[Colours]) -> list[Colours]:
        """Split colours until nodes of one colour see the same colours along edges and sharing classes.

        Sums of hashes stand for multisets. A collision could only make the search slower: what it finds is
        checked against the three conditions.
        """
        source, target, sharing = self._edges
        classes = [self._classes] * len(nodes)
        while True:
            edges = _renamed(
                [
                    _hash(node[source]) * np.uint64(3)
                    + _hash(node[target]) * np.uint64(5)
                    + _hash(own[sharing])
                    for node, own in zip(nodes, classes, strict=True)
                ]
            )
            hashes = [_hash(edge) for edge in edges]
            found = _renamed(
                [
                    _hash(node) + _summed(h, source, len(node)) + _summed(h * _MIX, target, len(node))
                    for node, h in zip(nodes, hashes, strict=True)
                ]
            )
            shared = _renamed(
                [_hash(own) + _summed(h, sharing, len(own)) for own, h in zip(classes, hashes, strict=True)]
            )
            settled = _count(found) == _count(nodes) and _count(shared) == _count(classes)
            nodes, classes = found, shared
            if settled:
                return nodes


def _first_unsettled(colours: Colours) -> int | None:
    """Return a node of the rarest colour that several nodes share."""
    _, place, counts = np.unique(colours, return_inverse=True, return_counts=True)
    several = np.where(counts > 1, counts, len(colours) + 1)
    smallest = int(several.argmin())
    return int(np.flatnonzero(place == smallest)[0]) if counts[smallest] > 1 else None


def _renamed(hashes: list[NDArray]) -> list[Colours]:
    """Replace hashes by small numbers, consistently across the lists."""
    _, names = np.unique(np.concatenate(hashes), return_inverse=True)
    return list(np.split(names, np.cumsum([len(own) for own in hashes])[:-1]))


def _count(colours: list[Colours]) -> int:
    return len(np.unique(np.concatenate(colours)))


def _summed(values: NDArray, places: NDArray, size: int) -> NDArray:
    sums = np.zeros(size, dtype=np.uint64)
    np.add.at(sums, places, values)
    return sums


def _hash(colours: NDArray) -> NDArray[np.uint64]:
    """Mix each number to 64 bits (the finaliser of splitmix64)."""
    x = colours.astype(np.uint64) + _MIX
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
