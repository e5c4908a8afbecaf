"""Oracle: metanetworks are equivariant to the symmetries of every network, and to nothing else."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from graph_metanetworks.graph.batch import StateDict, collate
from graph_metanetworks.graph.parameter_graph import ParameterGraph
from graph_metanetworks.nn.metanetwork import GraphMetanetwork
from graph_metanetworks.symmetry.automorphism import Automorphism
from graph_metanetworks.testing.automorphism import blocks_by_kind, edge_rows, numbered, sample
from graph_metanetworks.testing.function import moved_parameters, wrong_permutations

TOLERANCES = {torch.float64: 1e-10, torch.float32: 1e-4}  # relative
VISIBLE = 1e-9  # relative change that a wrong permutation must cause, in float64


def assert_equivariant(
    network: GraphMetanetwork,
    graph: ParameterGraph,
    model: nn.Module,
    *,
    samples: int = 2,
    tolerance: float | None = None,
) -> None:
    """Check that permuted weights give the same result (graph level) or a permuted one (nodes, edges).

    In float64, wrong permutations are tested too: they must change the result.
    """
    dtype = next(network.parameters()).dtype
    weights = {
        name: value.to(dtype) for name, value in model.state_dict().items() if name not in graph.ignored
    }
    tolerance = tolerance or TOLERANCES[dtype]
    for seed in range(samples):
        automorphism = sample(graph, seed)
        moved = moved_parameters(graph, automorphism) if dtype == torch.float64 else []
        wrongs = list(wrong_permutations(graph, automorphism, weights, moved)) if moved else []
        error, *changes = _changes(
            network, graph, automorphism, weights, [automorphism.apply(weights), *wrongs]
        )
        assert error <= tolerance, (
            f"a symmetry of {graph.name} changes the {network.level}-level result by {error:.1e} (relative), "
            f"more than {tolerance:.0e}"
        )
        assert not wrongs or max(changes) > VISIBLE, (
            f"leaving a tensor of {graph.name} behind changes the {network.level}-level result by only "
            f"{max(changes):.1e}: the metanetwork does not see what is permuted"
        )


def _changes(
    network: GraphMetanetwork,
    graph: ParameterGraph,
    automorphism: Automorphism,
    weights: StateDict,
    permuted: Sequence[StateDict],
) -> list[float]:
    """Return the largest difference between expected and actual results, relative to the largest result."""
    with torch.no_grad():
        results = network(collate([(graph, own) for own in (weights, *permuted)]))
    before, *after = results.unflatten(0, (len(permuted) + 1, -1))
    if network.level == "node":
        after = [own[automorphism.nodes] for own in after]
    if network.level == "edge":
        before = before[_edge_order(graph, None, automorphism)]
        order = _edge_order(graph, automorphism, None)
        after = [own[order] for own in after]
    size = before.abs().max().clamp(min=1e-30)
    return [float((own - before).abs().max() / size) for own in after]


def _edge_order(graph: ParameterGraph, weights: Automorphism | None, nodes: Automorphism | None) -> Tensor:
    """Sort edges by kind, ends, position and element, after permuting weights or nodes."""
    numbers = numbered(graph)
    values = graph.edge_values(weights.apply(numbers) if weights else numbers)
    order = []
    for blocks in blocks_by_kind(graph).values():
        edges = np.concatenate([np.arange(where.start, where.stop) for _, where in blocks])
        moved = nodes.nodes if nodes else None
        rows = np.concatenate([edge_rows(block, values[where], moved) for block, where in blocks])
        order.append(edges[np.lexsort(rows.T)])
    return torch.from_numpy(np.concatenate(order))
