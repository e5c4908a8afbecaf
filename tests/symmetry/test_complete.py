"""The group is complete: on tiny networks it has as many elements as the graph has automorphisms."""

import pytest
import torch

import graph_metanetworks as gmn
from support import exact
from support.tiny import MORE, TINY


@pytest.mark.parametrize("name", TINY)
def test_the_order_by_hand(name: str) -> None:
    model, x, order = TINY[name]
    assert gmn.trace(model, x).symmetry.order() == order


@pytest.mark.parametrize("name", TINY)
def test_the_group_is_all_automorphisms_of_the_graph(name: str) -> None:
    """Counted by exact search on the explicit edge list: kinds, positions, features and shared weights."""
    model, x, order = TINY[name]
    assert exact.order(gmn.trace(model, x)) == order


@pytest.mark.parametrize("name", MORE)
def test_where_the_graph_has_more(name: str) -> None:
    model, x, claimed, total = MORE[name]
    graph = gmn.trace(model, x)
    assert graph.symmetry.order() == claimed
    assert exact.order(graph) == total


def test_the_search_counts_right() -> None:
    """Against numbers known by name: the cube has 48 symmetries, the Petersen graph 120."""
    cube = [(a, a ^ bit) for a in range(8) for bit in (1, 2, 4)]
    outer = [(i, (i + 1) % 5) for i in range(5)]
    petersen = outer + [(i, i + 5) for i in range(5)] + [(5 + i, 5 + (i + 2) % 5) for i in range(5)]
    petersen += [(b, a) for a, b in petersen]
    for size, pairs, order in ((8, cube, 48), (10, petersen, 120)):
        arcs = [[(b, "") for a, b in pairs if a == v] for v in range(size)]
        assert exact.count(exact.Coloured(["same"] * size, arcs, size)) == order


def test_exchanged_branches_are_recognised() -> None:
    """An automorphism outside the group: the two branches change places."""
    model, x, *_ = MORE["equal branches"]
    graph = gmn.trace(model, x)
    left, right = (next(g for g in graph.groups if g.name == n and g.size > 1) for n in ("left", "right"))
    biases = [g.start for g in graph.groups if g.kind == "linear bias" and g.name in ("left", "right")]
    nodes = torch.arange(graph.num_nodes)
    nodes[left.nodes], nodes[right.nodes] = nodes[right.nodes].clone(), nodes[left.nodes].clone()
    assert not graph.symmetry.is_automorphism(nodes)  # without their biases
    nodes[biases] = nodes[biases].flip(0)
    assert graph.symmetry.is_automorphism(nodes)
