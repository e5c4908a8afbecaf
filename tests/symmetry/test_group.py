"""The symmetry group of a graph, and its elements."""

from collections import Counter
from math import exp, factorial

import pytest
import torch
from torch import nn

import graph_metanetworks as gmn
from graph_metanetworks import testing
from support.tiny import TINY
from support.traced import sample, traced


@pytest.mark.parametrize("name", [name for name, (_, _, order) in TINY.items() if order < 100])
def test_samples_reach_every_permutation(name: str) -> None:
    """The number of distinct permutations of nodes is the order of the group."""
    model, x, order = TINY[name]
    symmetry = gmn.trace(model, x).symmetry
    generator = torch.Generator().manual_seed(0)
    seen = Counter(tuple(symmetry.sample(generator).nodes.tolist()) for _ in range(30 * order))
    assert len(seen) == order
    assert max(seen.values()) < 3 * 30  # 30 of each are expected


# ------------------------------------------------------------------ elements

SEVERAL = ["mlp-group-norm", "cnn-2d-batch-norm", "attention-grouped-query", "lstm-bidirectional", "densenet"]


@pytest.mark.parametrize("name", SEVERAL)
def test_composition_keeps_the_function(name: str) -> None:
    case = traced(name)
    twice = sample(case.graph, 1).apply(sample(case.graph, 0).apply(case.model.state_dict()))
    double = case.model.double()
    try:
        expected = double(*(arg.double() for arg in case.args))
        with torch.no_grad():
            permuted = torch.func.functional_call(
                double, {k: v.double() for k, v in twice.items()}, tuple(a.double() for a in case.args)
            )
        torch.testing.assert_close(permuted, expected.detach(), rtol=1e-5, atol=1e-6)
    finally:
        case.model.float()


@pytest.mark.parametrize("name", SEVERAL)
def test_nodes_and_weights_move_together(name: str) -> None:
    """Applying two elements in turn moves nodes by the composition of their permutations."""
    case = traced(name)
    first, second = sample(case.graph, 0), sample(case.graph, 1)
    values = torch.arange(case.graph.num_edges, dtype=torch.float64)
    numbered = {p.name: torch.zeros(p.shape, dtype=torch.float64) for p in case.graph.parameters}
    numbered |= {n: v.double() for n, v in case.graph.state_dict(values).items()}
    twice = second.apply(first.apply(numbered))
    index, kind = case.graph.edge_index, case.graph.edge_kind
    both = second.nodes[first.nodes]

    def table(nodes: torch.Tensor, weights: dict[str, torch.Tensor]) -> torch.Tensor:
        rows = torch.stack([*nodes[index].double(), kind.double(), case.graph.edge_values(weights).double()])
        return rows.T[_order(rows)]

    identity = torch.arange(case.graph.num_nodes)
    torch.testing.assert_close(table(both, numbered), table(identity, twice))


def _order(rows: torch.Tensor) -> torch.Tensor:
    order = torch.arange(rows.shape[1])
    for row in rows:
        order = order[torch.argsort(row[order], stable=True)]
    return order


@pytest.mark.parametrize("name", SEVERAL)
def test_the_same_seed_gives_the_same_element(name: str) -> None:
    graph = traced(name).graph
    assert torch.equal(sample(graph, 5).nodes, sample(graph, 5).nodes)
    assert not torch.equal(sample(graph, 5).nodes, sample(graph, 6).nodes)


def test_a_global_seed_is_used_without_a_generator() -> None:
    symmetry = traced("mlp-relu").graph.symmetry
    torch.manual_seed(3)
    first = symmetry.sample().nodes
    torch.manual_seed(3)
    assert torch.equal(symmetry.sample().nodes, first)


def test_apply_leaves_the_state_dict_alone() -> None:
    case = traced("cnn-2d-batch-norm")
    state = case.model.state_dict()
    before = {name: value.clone() for name, value in state.items()}
    permuted = sample(case.graph).apply(state)
    assert list(permuted) == list(state)
    assert all(torch.equal(state[name], before[name]) for name in state)
    assert torch.equal(permuted["1.num_batches_tracked"], state["1.num_batches_tracked"])
    for name, value in permuted.items():
        if name in {p.name for p in case.graph.parameters}:
            assert value.data_ptr() != state[name].data_ptr(), "a result that shares memory with the input"


def test_tied_names_move_alike() -> None:
    case = traced("shared-module-under-two-names")
    permuted = sample(case.graph).apply(case.model.state_dict())
    assert torch.equal(permuted["0.2.weight"], permuted["2.0.0.weight"])


def test_gradients_flow_through_a_permutation() -> None:
    case = traced("mlp-relu")
    weights = {n: v.clone().requires_grad_() for n, v in case.model.state_dict().items()}
    sum(v.square().sum() for v in sample(case.graph).apply(weights).values()).backward()  # type: ignore
    assert all(torch.allclose(w.grad, 2 * w) for w in weights.values() if w.grad is not None)
    assert all(w.grad is not None for w in weights.values())


def test_orders_that_fit_no_float() -> None:
    model = nn.Sequential(nn.Linear(1, 500), nn.ReLU(), nn.Linear(500, 1))
    symmetry = gmn.trace(model, torch.randn(1, 1)).symmetry
    assert symmetry.log_order == pytest.approx(2611.33, abs=0.01)
    assert symmetry.order() == factorial(500)
    assert exp(1) < symmetry.log_order
    assert "free axes=1" in repr(symmetry)


@pytest.mark.parametrize("name", SEVERAL)
def test_permuting_half_precision_and_integers(name: str) -> None:
    case = traced(name)
    half = {n: v.bfloat16() if v.is_floating_point() else v for n, v in case.model.state_dict().items()}
    permuted = sample(case.graph).apply(half)
    assert all(permuted[n].dtype == v.dtype for n, v in half.items())
    testing.assert_automorphism(case.graph)
