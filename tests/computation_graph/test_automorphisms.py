"""Automorphisms of computation graphs are what the paper says they are, and the search finds them all."""

from itertools import permutations

import pytest
import torch
from torch import nn
from torch.nn import Conv1d, Linear

import graph_metanetworks as gmn
from graph_metanetworks.computation_graph import AutomorphismGroup, Lifting, NoProjection
from graph_metanetworks.theory.networks import FAMILIES, mlp_of, random_networks
from support.composed import Composed

# ------------------------------------------------------------------ the three conditions


def swap(graph: gmn.ComputationGraph, first: int, second: int) -> torch.Tensor:
    permutation = torch.arange(graph.num_nodes)
    permutation[first], permutation[second] = second, first
    return permutation


def test_each_condition_is_named():
    graph = gmn.computation_graph(mlp_of([2, 2, 2, 1]), (1, 2))
    first, second = (layer.start for layer in graph.layers if layer.kind == "hidden")
    assert graph.is_automorphism(swap(graph, first, first + 1))
    assert graph.failed_conditions(swap(graph, 0, 1)) == ("labels",)
    assert set(graph.failed_conditions(swap(graph, first, second))) == {"edges", "sharing"}
    circular = Conv1d(1, 2, 3, padding=1, padding_mode="circular", bias=False)
    graph = gmn.computation_graph(nn.Sequential(circular, nn.ReLU(), Conv1d(2, 1, 3)), (1, 1, 3))
    hidden = graph.layers[1].start
    assert graph.failed_conditions(swap(graph, hidden, hidden + 1)) == ("sharing",)


def test_hidden_neurons_of_different_functions_are_told_apart():
    model = Composed(
        lambda x, a, b: b(torch.cat([a(x)[:, :1].relu(), a(x)[:, 1:].tanh()], 1)), Linear(1, 2), Linear(2, 1)
    )
    graph = gmn.computation_graph(model, (1, 1))
    nodes = [layer.start for layer in graph.layers if layer.activation.name]
    assert "labels" in graph.failed_conditions(swap(graph, *nodes))


def test_a_residual_edge_does_not_become_a_weight():
    """The paper's words alone would allow it: the 1 of a single residual edge is tied to nothing."""
    model = Composed(
        lambda x, a, b: b(torch.cat([x * 1.0, x * a.weight[0]], 1)),
        Linear(1, 1, bias=False),
        Linear(2, 1, bias=False),
    )
    graph = gmn.computation_graph(model, (1, 1))
    one, weighted = (layer.start for layer in graph.layers if layer.kind == "hidden")
    assert graph.failed_conditions(swap(graph, one, weighted)) == ("sharing",)


def test_what_is_no_permutation_or_no_automorphism_is_refused():
    graph = gmn.computation_graph(mlp_of([2, 2, 1]), (1, 2))
    with pytest.raises(ValueError, match=r"a permutation of range\(7\)"):
        graph.is_automorphism(torch.zeros(7, dtype=torch.int64))
    with pytest.raises(ValueError, match="does not keep labels"):
        graph.permuted(swap(graph, 0, 1))


# ------------------------------------------------------------------ the search


@pytest.mark.parametrize("widths", [[1, 3, 1], [2, 2, 2], [1, 2, 2, 1]], ids=str)
def test_the_search_finds_all_automorphisms(widths):
    graph = gmn.computation_graph(mlp_of(widths, bias=False), (1, widths[0]))
    every = torch.tensor(list(permutations(range(graph.num_nodes))))
    assert AutomorphismGroup(graph).order() == int(graph.conditions.met(every).all(1).sum())


def test_the_search_finds_what_the_tracer_finds():
    for network in random_networks(1, 2 * len(FAMILIES)):
        graph = gmn.computation_graph(network.model, network.shape)
        assert (
            AutomorphismGroup(graph).order() == gmn.trace(network.model, network.example(0)).symmetry.order()
        )


def test_samples_are_spread_over_the_group():
    group = AutomorphismGroup(gmn.computation_graph(mlp_of([1, 3, 1]), (1, 1)))
    generator = torch.Generator().manual_seed(0)
    found = [tuple(group.sample(generator).tolist()) for _ in range(120)]
    assert len(set(found)) == 6 and max(map(found.count, found)) < 40


def test_channels_of_a_circular_image_can_be_translated():
    """The converse of the proposition on CNNs is false: channels do not give all automorphisms."""
    convolutions = [Conv1d(*channels, 3, padding=1, padding_mode="circular") for channels in ((1, 2), (2, 1))]
    model = nn.Sequential(convolutions[0], nn.ReLU(), convolutions[1]).double()
    graph = gmn.computation_graph(model, (1, 1, 3))
    pixels = next(layer for layer in graph.layers if layer.kind == "hidden").numbered()[0, 0]
    translation = torch.arange(graph.num_nodes)
    translation[pixels] = pixels.roll(1)
    assert graph.is_automorphism(translation)
    x = torch.randn(1, 1, 3, dtype=torch.float64)
    torch.testing.assert_close(graph.permuted(translation).evaluate(x), model(x))
    assert not torch.equal(graph.permuted(translation).weights, graph.weights)
    assert AutomorphismGroup(graph).order() == 3**2 * 2
    assert gmn.trace(model, x).symmetry.order() == 2


# ------------------------------------------------------------------ from parameter graphs


def test_lifting_needs_neurons_over_nodes():
    model = Composed(lambda x, a: a(x + x) - x.sum(1, keepdim=True) / 3, Linear(3, 2)).double()
    lifting = Lifting(gmn.trace(model, torch.zeros(1, 3).double()), gmn.computation_graph(model, (1, 3)))
    with pytest.raises(NoProjection, match="lie over no node"):
        lifting.lift(torch.arange(lifting.parameter_graph.num_nodes))
