"""Oracle: symmetries map the graph to itself."""

from __future__ import annotations

from collections import defaultdict
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn

from graph_metanetworks.graph.parameter_graph import ParameterGraph
from graph_metanetworks.graph.parts import EdgeBlock, block_position
from graph_metanetworks.symmetry.automorphism import Automorphism


def assert_automorphism(graph: ParameterGraph, model: nn.Module | None = None, *, samples: int = 2) -> None:
    """Check that sampled permutations map nodes and edges to equivalent ones and carry values along.

    Without a model, elements are numbered and the numbers take the place of weights.
    """
    if model is None:
        weights = numbered(graph)
    else:
        weights = {n: t for n, t in model.state_dict().items() if n not in graph.ignored}
    for seed in range(samples):
        automorphism = sample(graph, seed)
        nodes = automorphism.nodes
        assert torch.equal(nodes.sort().values, torch.arange(graph.num_nodes)), "not a permutation"
        for name in ("node_kind", "node_depth", "node_index", "node_activation"):
            feature = getattr(graph, name)
            assert torch.equal(feature[nodes], feature), f"{name} is not invariant"
        before = graph.edge_values(weights)
        after = graph.edge_values(automorphism.apply(weights))
        for kind, blocks in blocks_by_kind(graph).items():
            mapped = [edge_rows(block, before[edges], nodes) for block, edges in blocks]
            found = [edge_rows(block, after[edges], None) for block, edges in blocks]
            same = np.array_equal(_sorted(mapped), _sorted(found), equal_nan=True)
            assert same, f"the edges of {kind[0]} ({kind[1] or 'structural'}) are not mapped to edges"


_samples: WeakKeyDictionary[ParameterGraph, dict[int, Automorphism]] = WeakKeyDictionary()


def sample(graph: ParameterGraph, seed: int) -> Automorphism:
    """Return the element that a seed draws. All oracles use the same few, so they are kept with the graph."""
    drawn = _samples.setdefault(graph, {})
    if seed not in drawn:
        drawn[seed] = graph.symmetry.sample(torch.Generator().manual_seed(seed))
    return drawn[seed]


def numbered(graph: ParameterGraph) -> dict[str, Tensor]:
    weights, start = {}, 0
    for p in graph.parameters:
        values = torch.arange(start, start + p.numel, dtype=torch.float64).view(p.shape)
        weights.update({name: values for name in (p.name, *p.tied)})
        start += p.numel
    return weights


def blocks_by_kind(graph: ParameterGraph) -> dict[tuple, list[tuple[EdgeBlock, slice]]]:
    found = defaultdict(list)
    for block, edges in zip(graph.blocks, graph.edge_slices, strict=True):
        found[block.kind, block.parameter].append((block, edges))
    return found


def edge_rows(block: EdgeBlock, values: Tensor, nodes: Tensor | None) -> np.ndarray:
    """Return one row per edge: source, target, position, value. [edges, 6]"""
    ends = [end.expand(block.shape).reshape(-1) for end in (block.source, block.target)]
    ends = [end if nodes is None else nodes[end] for end in ends]
    columns = [*(end.double() for end in ends), *block_position(block).double().T, values.double()]
    return torch.stack(columns, dim=1).numpy()


def _sorted(rows: list[np.ndarray]) -> np.ndarray:
    table = np.concatenate(rows)
    return table[np.lexsort(table.T)]
