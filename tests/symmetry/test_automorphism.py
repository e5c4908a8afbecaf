"""Elements of the group: composition, inverse, and what they act on."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import graph_metanetworks as gmn
from graph_metanetworks.testing.automorphism import numbered
from support.tiny import TINY
from support.traced import every_architecture, sample, traced

SEVERAL = [
    "mlp-group-norm",
    "cnn-2d-batch-norm",
    "attention-grouped-query",
    "attention-packed-qkv",
    "lstm-bidirectional",
    "densenet",
    "shared-block",
    "gat",
]
several = pytest.mark.parametrize("name", SEVERAL)


def same(first: dict, second: dict) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[k], second[k]) for k in first)


# ------------------------------------------------------------------ a group


@several
def test_composition_is_one_after_the_other(name: str) -> None:
    graph = traced(name).graph
    s, t = sample(graph, 0), sample(graph, 1)
    weights = numbered(graph)
    assert same((s @ t).apply(weights), s.apply(t.apply(weights)))
    assert torch.equal((s @ t).nodes, s.nodes[t.nodes])


@several
def test_the_laws_of_a_group(name: str) -> None:
    graph = traced(name).graph
    r, s, t = (sample(graph, seed) for seed in range(3))
    identity = graph.symmetry.identity()
    assert (r @ s) @ t == r @ (s @ t)
    assert s @ identity == s == identity @ s
    assert s @ ~s == identity == ~s @ s
    assert ~(s @ t) == ~t @ ~s
    assert (s @ ~s).is_identity and not s.is_identity
    assert hash(s @ identity) == hash(s) and s != t


def test_the_identity_changes_nothing() -> None:
    case = traced("attention-grouped-query")
    assert same(case.graph.symmetry.identity().apply(case.model.state_dict()), case.model.state_dict())


def test_automorphisms_of_two_graphs_are_not_mixed() -> None:
    ours, theirs = (sample(traced(name).graph) for name in ("mlp-relu", "mlp-tanh"))
    with pytest.raises(ValueError, match="one graph"):
        _ = ours @ theirs
    assert ours != theirs


@pytest.mark.parametrize("name", [name for name, (_, _, order) in TINY.items() if order <= 96])
def test_generators_generate_the_group(name: str) -> None:
    model, x, order = TINY[name]
    symmetry = gmn.trace(model, x).symmetry
    found, waiting = {symmetry.identity()}, [symmetry.identity()]
    while waiting:
        current = waiting.pop()
        for generator in symmetry.generators():
            if (new := generator @ current) not in found:
                found.add(new)
                waiting.append(new)
    assert len(found) == order
    assert len({tuple(element.nodes.tolist()) for element in found}) == order


# ------------------------------------------------------------------ which permutations belong


@pytest.mark.parametrize("name", TINY)
def test_samples_are_automorphisms_of_the_graph(name: str) -> None:
    model, x, _ = TINY[name]
    symmetry = gmn.trace(model, x).symmetry
    generator = torch.Generator().manual_seed(0)
    assert all(symmetry.is_automorphism(symmetry.sample(generator).nodes) for _ in range(5))
    assert all(symmetry.is_automorphism(element.nodes) for element in symmetry.generators())


@every_architecture
def test_samples_are_automorphisms_of_every_graph(name: str) -> None:
    graph = traced(name).graph
    if graph.num_edges < 20_000:
        assert graph.symmetry.is_automorphism(sample(graph).nodes)


@pytest.mark.parametrize("name", ["perceptron", "residual", "tied", "attention", "words", "sets"])
def test_other_permutations_are_none(name: str) -> None:
    """Of all exchanges of two nodes, exactly those in the group are recognised."""
    model, x, _ = TINY[name]
    symmetry = gmn.trace(model, x).symmetry
    still = torch.arange(symmetry.num_nodes)
    swaps = torch.combinations(still)
    recognised = 0
    for pair in swaps:
        nodes = still.clone()
        nodes[pair] = pair.flip(0)
        recognised += symmetry.is_automorphism(nodes)
    alone = [f for f in symmetry.factors if f.copies == 1 and f.kind == "channels" and len(f.groups) == 1]
    assert recognised == sum(f.size * (f.size - 1) // 2 for f in alone) < len(swaps)
    assert not symmetry.is_automorphism(torch.zeros_like(still))


def test_shared_weights_must_go_to_shared_weights() -> None:
    """One layer applied twice: both uses must be permuted alike."""
    model, x, _ = TINY["applied twice"]
    graph = gmn.trace(model, x)
    (s,) = [e for e in graph.symmetry.generators() if (e @ e).is_identity]
    assert graph.symmetry.is_automorphism(s.nodes)
    last = max((g for g in graph.groups if g.size == 3), key=lambda group: group.depth)
    torn = s.nodes.clone()
    torn[last.nodes] = torch.arange(last.start, last.start + last.size)
    assert not graph.symmetry.is_automorphism(torn)


# ------------------------------------------------------------------ what they act on


@several
def test_edges_move_like_weights(name: str) -> None:
    graph = traced(name).graph
    s, weights = sample(graph), numbered(graph)
    assert torch.equal(s.apply_edges(graph.edge_values(weights)), graph.edge_values(s.apply(weights)))
    index = graph.edge_index
    assert torch.equal(s.nodes[index], index[:, s.edges])
    assert torch.equal(graph.edge_kind, graph.edge_kind[s.edges])
    assert torch.equal(graph.edge_position, graph.edge_position[s.edges])
    assert torch.equal(s.edges.sort().values, torch.arange(graph.num_edges))


def test_states_of_edges_and_nodes_keep_their_channels() -> None:
    graph = traced("mlp-relu").graph
    s = sample(graph)
    edges, nodes = torch.randn(graph.num_edges, 3), torch.randn(graph.num_nodes, 2)
    assert torch.equal((~s).apply_edges(s.apply_edges(edges)), edges)
    assert torch.equal(s.apply_nodes(nodes)[s.nodes], nodes)
    with pytest.raises(gmn.StateDictMismatch, match="edge values of shape"):
        s.apply_edges(nodes)


def gradients(model: nn.Module, x: Tensor) -> dict[str, Tensor | None]:
    model.zero_grad()
    model(x).square().sum().backward()
    return {name: p.grad for name, p in model.named_parameters()}


def test_gradients_of_the_permuted_network() -> None:
    case = traced("cnn-2d-batch-norm")
    model, (x,) = case.model, case.args
    s, before = sample(case.graph), {k: v.clone() for k, v in case.model.state_dict().items()}
    expected = s.apply_gradients(gradients(model, x))
    try:
        model.load_state_dict(s.apply(before))
        for name, gradient in gradients(model, x).items():
            torch.testing.assert_close(gradient, expected[name], rtol=1e-4, atol=1e-5)
    finally:
        model.load_state_dict(before)
        model.zero_grad()
    assert s.apply_gradients({"0.weight": None}) == {"0.weight": None}


OPTIMISERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adam": torch.optim.Adam,
    "momentum": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01),
}


@pytest.mark.parametrize("kind", OPTIMISERS)
def test_training_goes_on_with_permuted_weights_and_optimiser(kind: str) -> None:
    """Permute, then train: the same as train, then permute."""
    x, y = torch.randn(16, 3).double(), torch.randn(16, 2).double()
    model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    graph = gmn.trace(model, x)
    s, names = sample(graph), [name for name, _ in model.named_parameters()]

    def train(optimiser: torch.optim.Optimizer, steps: int) -> None:
        for _ in range(steps):
            optimiser.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimiser.step()

    optimiser = OPTIMISERS[kind](model.parameters())
    train(optimiser, 5)
    weights = {k: v.clone() for k, v in model.state_dict().items()}
    moved = s.apply_optimizer(optimiser.state_dict(), names)
    train(optimiser, 5)
    expected = s.apply(model.state_dict())
    model.load_state_dict(s.apply(weights))
    optimiser = OPTIMISERS[kind](model.parameters())
    optimiser.load_state_dict(moved)
    train(optimiser, 5)
    for name, value in model.state_dict().items():
        torch.testing.assert_close(value, expected[name], rtol=1e-9, atol=1e-12)


def test_wrong_tensors_are_explained() -> None:
    s = sample(traced("mlp-relu").graph)
    with pytest.raises(gmn.StateDictMismatch, match="is missing"):
        s.apply({})
    with pytest.raises(gmn.StateDictMismatch, match="permutes a tensor of shape"):
        s.apply_gradients({"0.weight": torch.zeros(2, 2)})
    with pytest.raises(gmn.StateDictMismatch, match="only 1 names"):
        s.apply_optimizer({"state": {3: {}}}, ["0.weight"])
