"""Metanetworks and StatNN with probes."""

import pickle

import pytest
import torch
from torch import nn

import graph_metanetworks as gmn
from graph_metanetworks.nn.baselines import ProbedStatNN
from graph_metanetworks.nn.probe_outputs import ProbeOutputs


def network(hidden: int = 6, outputs: int = 3) -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, hidden), nn.Tanh(), nn.Linear(hidden, outputs))


def pair(model: nn.Module):
    return gmn.trace(model, torch.zeros(1, 4)), model.state_dict()


@pytest.fixture(scope="module")
def batch() -> gmn.Batch:
    torch.manual_seed(1)
    shared = pair(network())[0]
    pairs = [(shared, network().state_dict()), pair(network(9)), (shared, network().state_dict())]
    return gmn.collate(pairs).to(torch.float64)


MODELS = {
    "groups": lambda: gmn.GraphMetanetwork(8, 2, 2, blocks="matrix-product", probes=gmn.nn.Probes(5, (4,))),
    "bundles": lambda: gmn.GraphMetanetwork(8, 2, 2, blocks="bundles", probes=gmn.nn.Probes(5, (4,))),
    "message passing": lambda: gmn.GraphMetanetwork(8, 2, 2, readout="groups", probes=gmn.nn.Probes(5, (4,))),
    "statnn": lambda: ProbedStatNN(gmn.nn.Probes(5, (4,)), 16, 2, by="kind"),
    "statnn with a budget": lambda: ProbedStatNN(gmn.nn.Probes(5, (4,)), None, 2, budget=5000),
}


def fitted(name: str, batch: gmn.Batch) -> nn.Module:
    torch.manual_seed(0)
    model = MODELS[name]().double()
    model.fit([batch])
    return model


@pytest.mark.parametrize("name", MODELS)
def test_invariant_and_alone(name: str, batch: gmn.Batch) -> None:
    model = fitted(name, batch)
    graph, weights = batch.graphs[0], network().double().state_dict()
    permuted = graph.symmetry.sample(torch.Generator().manual_seed(0)).apply(weights)
    results = model(gmn.collate([(graph, weights), (graph, permuted)]))
    torch.testing.assert_close(results[0], results[1], rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(model(gmn.collate([(graph, weights)]))[0], results[0], rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", MODELS)
def test_probes_learn(name: str, batch: gmn.Batch) -> None:
    model = fitted(name, batch)
    model(batch).square().sum().backward()
    assert model.probes.inputs[0].grad.abs().sum() > 0
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_what_only_the_function_shows() -> None:
    """Networks with equal statistics of weights that compute different functions."""
    model = network()
    state = model.state_dict()
    other = state | {"2.weight": state["2.weight"].flip(0), "2.bias": state["2.bias"].flip(0)}
    graph = gmn.trace(model, torch.zeros(1, 4))
    both = gmn.collate([(graph, state), (graph, other)]).to(torch.float64)
    first, second = fitted("statnn", both)(both)
    assert not torch.allclose(first, second)


def test_brightness_is_seen_in_values_but_not_in_logits() -> None:
    colours = torch.rand(2, 5, 3)
    for outputs, seen in (("values", True), ("logits", False)):
        encode = ProbeOutputs(gmn.nn.Probes(5, (2,), outputs=outputs), 16)
        assert torch.allclose(encode(colours), encode(colours + 0.3), atol=1e-5) != seen
    with pytest.raises(ValueError, match="neither 'logits' nor 'values'"):
        gmn.nn.Probes(5, (2,), outputs="colours")


@pytest.mark.parametrize("name", MODELS)
def test_a_fresh_model_loads_a_fitted_one(name: str, batch: gmn.Batch) -> None:
    model, fresh = fitted(name, batch), MODELS[name]().double()
    fresh.load_state_dict(model.state_dict())
    assert torch.equal(fresh(batch), model(batch))
    assert torch.equal(pickle.loads(pickle.dumps(model))(batch), model(batch))


def test_pretrained(batch: gmn.Batch, tmp_path) -> None:
    model = fitted("groups", batch)
    again = gmn.GraphMetanetwork.from_pretrained(model.save_pretrained(tmp_path))
    assert torch.equal(again(batch), model(batch))


def test_another_number_of_outputs(batch: gmn.Batch) -> None:
    model = fitted("groups", batch)
    with pytest.raises(ValueError, match=r"these networks have 2 outputs, but .* for networks with 3"):
        model(gmn.collate([pair(network(outputs=2))]).to(torch.float64))
