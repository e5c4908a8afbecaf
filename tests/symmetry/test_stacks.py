"""Permutations of stacks: each network gets what its own element of the group would give it."""

import pytest
import torch

import graph_metanetworks as gmn
from graph_metanetworks.symmetry.stacks import StackedAutomorphism
from graph_metanetworks.testing.automorphism import numbered
from support.tiny import TINY
from support.traced import some_architectures, traced

COUNT = 3


def drawn(graph: gmn.ParameterGraph, count: int = COUNT) -> StackedAutomorphism:
    return graph.symmetry.sample_stack(count, torch.Generator().manual_seed(0))


@some_architectures()
def test_each_network_moves_by_its_own_element(name: str) -> None:
    graph = traced(name).graph
    permutations, values = drawn(graph), numbered(graph)
    stacked = {p.name: values[p.name].reshape(-1, 1, 1).expand(-1, COUNT, 1) for p in graph.parameters}
    moved = permutations.apply(stacked)
    for number, element in enumerate(permutations[i] for i in range(COUNT)):
        expected = element.apply(values)
        for parameter in graph.parameters:
            found = moved[parameter.name][:, number, 0].view(parameter.shape)
            assert torch.equal(found, expected[parameter.name]), parameter.name
        assert torch.equal(permutations.nodes[number], element.nodes)
        if graph.num_edges < 2_000:
            assert torch.equal(permutations.edges[number], element.edges)


@pytest.mark.parametrize("name", ["attention-grouped-query", "lstm-bidirectional", "densenet"])
def test_the_inverse_undoes(name: str) -> None:
    graph = traced(name).graph
    permutations, values = drawn(graph), numbered(graph)
    stacked = {p.name: values[p.name].reshape(-1, 1, 1).expand(-1, COUNT, 1) for p in graph.parameters}
    back = permutations.inverse().apply(permutations.apply(stacked))
    assert all(torch.equal(back[key], stacked[key]) for key in stacked)
    assert not all(torch.equal(permutations.apply(stacked)[key], stacked[key]) for key in stacked)


def test_networks_of_a_stack_are_drawn_independently() -> None:
    name = next(name for name, (_, _, order) in TINY.items() if order == 6)
    model, x, order = TINY[name]
    seen = {tuple(row.tolist()) for row in drawn(gmn.trace(model, x), 200).nodes}
    assert len(seen) == order
