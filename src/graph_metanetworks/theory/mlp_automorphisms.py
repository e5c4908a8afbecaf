"""Statement 3: a permutation of an MLP's nodes is an automorphism if and only if it permutes hidden neurons
within their layers (appendix B.3). This is checked on every permutation of all nodes of tiny MLPs.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, permutations

import torch
from torch import Tensor

from graph_metanetworks.computation_graph import ComputationGraph, computation_graph
from graph_metanetworks.theory.networks import mlp_of
from graph_metanetworks.theory.statement import Trial

# widths, and whether there are biases: every one has at most nine nodes, bias nodes included
TINY = (
    ([1, 2, 1], True),
    ([2, 2, 1], True),
    ([1, 3, 1], True),
    ([1, 3, 2], True),
    ([1, 1, 1, 1], True),
    ([1, 2, 2, 1], False),
    ([2, 3, 2], False),
    ([1, 3, 3, 1], False),
    ([1, 1, 1, 1, 1, 1], False),
    ([1, 2, 2, 2, 1], False),
    ([1, 2, 2, 1], True),
)
CHUNK = 50_000


def trials(seed: int, count: int) -> Iterator[Trial]:
    del seed, count  # every permutation is tried
    for widths, bias in TINY:
        graph = computation_graph(mlp_of(widths, torch.nn.ReLU, bias=bias), (1, widths[0]))
        checked = wrong = 0
        for batch in all_permutations(graph.num_nodes):
            found = graph.conditions.met(batch).all(1)
            wrong += int((found != permutes_within_layers(graph, batch)).sum())
            checked += len(batch)
        yield Trial(f"mlp {'-'.join(map(str, widths))}", checked, wrong)


def permutes_within_layers(graph: ComputationGraph, candidates: Tensor) -> Tensor:
    """Check the proposition's condition: only hidden neurons move, each within its layer. [k, N] -> [k]"""
    hidden, nodes = graph.of_kind("hidden"), torch.arange(graph.num_nodes)
    same_layer = graph.node_layer[candidates] == graph.node_layer
    return torch.where(hidden, same_layer, candidates == nodes).all(1)


def all_permutations(size: int) -> Iterator[Tensor]:
    """Yield every permutation of `range(size)` in chunks. [k, size]"""
    rest = permutations(range(size))
    while batch := list(islice(rest, CHUNK)):
        yield torch.tensor(batch)
