"""Canonical representatives: the same for every copy, in the orbit, different for different networks."""

import pytest
import torch
from torch import Tensor, nn

import graph_metanetworks as gmn
from graph_metanetworks import testing
from graph_metanetworks.symmetry.canonical import canonical_automorphism
from support.tiny import TINY
from support.traced import every_architecture, sample, traced


def same(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    return all(torch.equal(first[name], second[name]) for name in first)


@every_architecture
def test_copies_have_one_representative(name: str) -> None:
    case = traced(name)
    weights = case.model.state_dict()
    copy = sample(case.graph).apply(weights)
    ours, theirs = (gmn.canonicalize(case.graph, own) for own in (weights, copy))
    assert list(ours) == list(weights)
    assert same(ours, theirs)


def test_the_representative_lies_in_the_orbit() -> None:
    case = traced("attention-grouped-query")
    weights = case.model.state_dict()
    s = canonical_automorphism(case.graph.symmetry, weights)
    assert same(gmn.canonicalize(case.graph, weights), s.apply(weights))
    assert same(gmn.canonicalize(case.graph, s.apply(weights)), s.apply(weights))
    testing.assert_automorphism(case.graph, case.model)


def test_another_network_has_another_representative() -> None:
    case = traced("mlp-relu")
    weights = case.model.state_dict()
    other = weights | {"2.weight": weights["2.weight"].clone()}
    other["2.weight"][0, 0] = torch.nextafter(other["2.weight"][0, 0], torch.tensor(9.0))
    assert not same(gmn.canonicalize(case.graph, weights), gmn.canonicalize(case.graph, other))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_other_numbers(dtype: torch.dtype) -> None:
    case = traced("mlp-relu")
    weights = {k: v.to(dtype) for k, v in case.model.state_dict().items()}
    copy = sample(case.graph).apply(weights)
    assert same(gmn.canonicalize(case.graph, weights), gmn.canonicalize(case.graph, copy))


TIES = ["perceptron", "two hidden layers", "residual", "attention", "groups of channels", "convolutions"]


@pytest.mark.parametrize("levels", [1, 2, 3])
@pytest.mark.parametrize("name", TIES)
def test_equal_neurons_do_no_harm(name: str, levels: int) -> None:
    """Weights of one, two or three different values: many neurons are alike."""
    model, x, _ = TINY[name]
    graph = gmn.trace(model, x)
    for seed in range(10):
        generator = torch.Generator().manual_seed(seed)
        weights = {
            p.name: torch.randint(levels, p.shape, generator=generator).float() for p in graph.parameters
        }
        copy = graph.symmetry.sample(generator).apply(weights)
        assert same(gmn.canonicalize(graph, weights), gmn.canonicalize(graph, copy))


def test_many_dead_neurons_are_quick() -> None:
    """Two thousand equal neurons are twins, and are not told apart one by one."""
    model = nn.Sequential(nn.Linear(2, 2000), nn.ReLU(), nn.Linear(2000, 1))
    graph = gmn.trace(model, torch.randn(1, 2))
    weights = {name: torch.zeros_like(value) for name, value in model.state_dict().items()}
    weights["0.weight"][7] = 1
    copy = sample(graph).apply(weights)
    assert same(gmn.canonicalize(graph, weights), gmn.canonicalize(graph, copy))


def test_linked_neurons_are_told_apart_together() -> None:
    """Two layers joined one to one by equal weights: whoever is first in one is first in the other."""
    model = nn.Sequential(nn.Linear(1, 4), nn.Tanh(), nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
    graph = gmn.trace(model, torch.randn(1, 1))
    weights = {name: torch.ones_like(value) for name, value in model.state_dict().items()}
    weights["2.weight"] = torch.eye(4)
    for seed in range(5):
        copy = sample(graph, seed).apply(weights)
        assert same(gmn.canonicalize(graph, weights), gmn.canonicalize(graph, copy))
