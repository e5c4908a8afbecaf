"""What holds for every parameter graph, whatever the architecture; and what tracing leaves alone."""

from collections import Counter

import networkx as nx
import pytest
import torch

from support.fingerprint import left_as_found
from support.traced import (
    BY_NAME,
    assert_same_graph,
    every_architecture,
    group_graph,
    one_of_each_family,
    traced,
)


def index_tensors_broadcast_to_their_block(name: str) -> None:
    for block in traced(name).graph.blocks:
        for end in (block.source, block.target):
            assert end.dtype == torch.int64
            assert end.dim() == len(block.shape)
            assert all(n in (1, full) for n, full in zip(end.shape, block.shape, strict=True))
        assert all(0 <= dim < len(block.shape) for dim in block.positions)


def edges_join_nodes_of_the_graph(name: str) -> None:
    graph = traced(name).graph
    index = graph.edge_index
    assert index.shape == (2, graph.num_edges)
    assert int(index.min()) >= 0
    assert int(index.max()) < graph.num_nodes
    assert graph.edge_kind.shape == graph.edge_depth.shape == (graph.num_edges,)
    assert graph.edge_position.shape == (graph.num_edges, 3)
    assert float(graph.edge_position.abs().max()) < 0.5


def groups_partition_the_nodes(name: str) -> None:
    graph = traced(name).graph
    start = 0
    for group in graph.groups:
        assert group.start == start
        assert group.size > 0
        start += group.size
    assert start == graph.num_nodes
    touched = torch.zeros(graph.num_nodes, dtype=torch.bool)
    touched[graph.edge_index.reshape(-1)] = True
    lonely = {g.name + " " + g.kind for g in graph.groups if not touched[g.nodes].all()}
    assert not lonely, f"nodes without an edge: {lonely}"


def names_are_unique(name: str) -> None:
    graph = traced(name).graph
    names = [n for p in graph.parameters for n in (p.name, *p.tied)]
    assert max(Counter(names).values()) == 1
    assert not set(names) & graph.ignored


def parallel_edges_are_told_apart(name: str) -> None:
    """No two edges of one use of a parameter agree in source, target and position."""
    graph = traced(name).graph
    index, positions = graph.edge_index.double(), graph.edge_position.double()
    for block, where in zip(graph.blocks, graph.edge_slices, strict=True):
        ends = index[:, where]
        edges = torch.cat([ends, positions[where].T])
        distinct = edges.unique(dim=1).size(1)
        assert distinct == block.num_edges, f"{block.kind} of {block.parameter}"


def depth_is_the_longest_path(name: str) -> None:
    """One more than the deepest predecessor; strictly increasing along all but recurrent edges.

    Nodes that only parameters lead to (a class token, say) count as predecessors or not.
    """
    graph = traced(name).graph
    network = group_graph(graph)
    starts = [i for i, g in enumerate(graph.groups) if g.kind in ("input", "vocabulary", "constant")]
    flow = set(starts).union(*(nx.descendants(network, start) for start in starts))
    loops = {g for c in nx.strongly_connected_components(network) if len(c) > 1 for g in c}
    for target, group in enumerate(graph.groups):
        before = [i for i in network.predecessors(target) if i in flow]
        for source in before:
            if source not in loops or target not in loops:
                assert graph.groups[source].depth < group.depth, f"{graph.groups[source]} -> {group}"
        if before and not loops:
            least, most = (
                1 + max(graph.groups[i].depth for i in some)
                for some in (before, network.predecessors(target))
            )
            assert least <= group.depth <= most, group


INVARIANTS = (
    index_tensors_broadcast_to_their_block,
    edges_join_nodes_of_the_graph,
    groups_partition_the_nodes,
    names_are_unique,
    parallel_edges_are_told_apart,
    depth_is_the_longest_path,
)


@every_architecture
def test_invariants(name: str) -> None:
    """All in one test: each is faster than the overhead of a test. The traceback names the one that fails."""
    for invariant in INVARIANTS:
        invariant(name)


# ------------------------------------------------------------------ the model is left as found


@one_of_each_family  # test_meta.py has more; and `traced` leaves every model as found
def test_the_model_is_left_as_found(name: str) -> None:
    """Frozen and in training mode it gives the same graph, and stays so."""
    architecture, case = BY_NAME[name], traced(name)
    model, args, kwargs = architecture.make()
    model.train().requires_grad_(False)
    next(iter(reversed(list(model.modules())))).eval()
    with left_as_found(model):
        graph = case.tracer.trace(model, *args, **kwargs)
    if name == "hf-mamba":  # frozen, it takes another branch of its own code
        assert case.graph.symmetry.log_order == pytest.approx(graph.symmetry.log_order)
        return
    assert_same_graph(case.graph, graph)
