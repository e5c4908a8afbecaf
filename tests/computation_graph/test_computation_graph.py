"""Computation graphs equal the networks they come from."""

from pathlib import Path
from random import Random

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import graph_metanetworks as gmn
from graph_metanetworks.computation_graph import Lifting
from graph_metanetworks.computation_graph import build as builds
from graph_metanetworks.computation_graph.network import edge_order
from graph_metanetworks.theory.networks import FAMILIES, mlp_of, random_networks
from support.composed import Composed

Linear, Conv1d, Conv2d = nn.Linear, nn.Conv1d, nn.Conv2d


def through_a_view(x, layer):
    """Written to through one view, read through another."""
    y = layer(x)
    y.view(-1)[:2].relu_()
    return y


def by_constants(x, layer):
    """A constant that is changed after it was used."""
    factor = torch.full((2,), 3.0, dtype=x.dtype)
    y = layer(x) * factor
    factor.mul_(5)
    return y * factor + torch.zeros(2)


def shifted(x, first, second):
    return second(torch.roll(torch.cat([first(x), x], dim=1), 1, 1))


CASES = {
    "in place": (nn.Sequential(Linear(2, 3), nn.ReLU(inplace=True), Linear(3, 2)), (1, 4, 2)),
    "through a view": (Composed(through_a_view, Linear(2, 4)), (1, 2)),
    "padding, stride": (
        nn.Sequential(Conv2d(1, 2, 3, padding=1), nn.Tanh(), Conv2d(2, 2, 2, stride=2)),
        (1, 1, 4, 4),
    ),
    "circular": (
        nn.Sequential(Conv1d(2, 2, 3, padding=1, padding_mode="circular"), nn.ReLU(), Conv1d(2, 1, 2)),
        (1, 2, 4),
    ),
    "dilation, groups": (Conv1d(2, 4, 3, dilation=2, padding=2, stride=2, groups=2), (1, 2, 7)),
    "three dimensions": (nn.Conv3d(1, 2, 2, padding=1), (1, 1, 2, 3, 2)),
    "no batch": (Conv2d(1, 2, (2, 1), stride=(1, 2)), (1, 3, 3)),
    "a batch": (Linear(2, 3), (3, 2)),
    "average pool": (
        nn.Sequential(Conv2d(1, 2, 2), nn.AvgPool2d(2, padding=1), nn.Flatten(), Linear(8, 1)),
        (1, 1, 4, 4),
    ),
    "sum pool": (
        Composed(lambda x, c: F.avg_pool2d(c(x).relu(), 2, divisor_override=1), Conv2d(1, 2, 1)),
        (1, 1, 4, 4),
    ),
    "global mean": (
        nn.Sequential(Conv2d(2, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), Linear(4, 2)),
        (1, 2, 4, 4),
    ),
    "sum of all": (Composed(lambda x, a: a(x).relu().sum(), Linear(2, 3)), (1, 2)),
    "residual around one": (Composed(lambda x, a: x + a(x), Linear(3, 3)), (1, 3)),
    "two branches": (
        Composed(lambda x, a, b, c: c((a(x) + b(x)).relu()), *(Linear(3, 3) for _ in range(3))),
        (1, 3),
    ),
    "used before and after": (
        Composed(lambda x, a, b: b(a(x).relu() + a(x)), Linear(3, 4), Linear(4, 2)),
        (1, 3),
    ),
    "tied": (Composed(lambda x, a: a(a(x).tanh()), Linear(3, 3)), (1, 3)),
    "constants": (
        Composed(lambda x, a: a(x + x) * 2 - x.sum(1, keepdim=True) / 3 - (-x[:, :2]), Linear(3, 2)),
        (1, 3),
    ),
    "scalars": (Composed(lambda x, a: 1 - (a(x) + 0.5).pow(2).clamp(max=2), Linear(3, 2)), (1, 3)),
    "matrix on the left": (Composed(lambda x, a: (a.weight @ x.T).T + a.bias, Linear(3, 4)), (1, 3)),
    "matrix times vector": (Composed(lambda x, a: a.weight @ x + a.bias, Linear(3, 4)), (3,)),
    "scale of each": (
        Composed(lambda x, a, b: a(x) * b.weight, Linear(3, 4), Linear(4, 1, bias=False)),
        (1, 3),
    ),
    "activation at the end": (
        nn.Sequential(Linear(2, 3), nn.LeakyReLU(0.2), Linear(3, 1), nn.Sigmoid()),
        (1, 2),
    ),
    "moved about": (Composed(shifted, Linear(2, 3), Linear(5, 2)), (1, 2)),
    "padded with zeros": (Composed(lambda x, a: a(F.pad(x, (1, 1)).relu()), Linear(4, 2)), (1, 2)),
    "changing constants": (Composed(by_constants, Linear(3, 2)), (1, 3)),
    "weights first": (
        Composed(lambda x, a, b: b.weight * a(x), Linear(3, 4), Linear(4, 1, bias=False)),
        (1, 3),
    ),
    "dropout": (nn.Sequential(Linear(2, 3), nn.Dropout(), Linear(3, 1)), (1, 2)),
}


def randomised(model: nn.Module) -> nn.Module:
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    return model.double()


# ------------------------------------------------------------------ the function


@pytest.mark.parametrize("name", CASES)
def test_evaluate_equals_the_network(name):
    model, shape = CASES[name]
    model = randomised(model).eval()
    graph = gmn.computation_graph(model, shape)
    for _ in range(2):
        x = torch.randn(shape, dtype=torch.float64)
        torch.testing.assert_close(graph.evaluate(x), model(x), rtol=1e-12, atol=1e-12)


@given(st.integers(0, 10**6), st.sampled_from(sorted(FAMILIES)))
def test_evaluate_equals_random_networks(seed, family):
    (network,) = random_networks(seed, 1, family)
    graph, x = gmn.computation_graph(network.model, network.shape), network.example(seed)
    torch.testing.assert_close(graph.evaluate(x), network.model(x), rtol=1e-12, atol=1e-12)


def test_the_example_is_a_tensor_or_its_shape():
    model = mlp_of([2, 3, 1])
    assert (
        len({str(gmn.computation_graph(model, x)) for x in (torch.zeros(1, 2), (1, 2), torch.Size([1, 2]))})
        == 1
    )
    with pytest.raises(gmn.TraceError, match="pass one tensor"):
        gmn.computation_graph(model, (torch.zeros(1, 2),))


def test_other_weights():
    model, other = (randomised(mlp_of([2, 3, 1])) for _ in range(2))
    graph = gmn.computation_graph(model, (1, 2)).with_weights(other.state_dict())
    x = torch.randn(1, 2, dtype=torch.float64)
    torch.testing.assert_close(graph.evaluate(x), other(x))
    assert all(torch.equal(value, other.state_dict()[name]) for name, value in graph.state_dict().items())
    with pytest.raises(gmn.StateDictMismatch, match=r"'0.weight' has shape \(4, 2\)"):
        graph.with_weights(mlp_of([2, 4, 1]).state_dict())
    with pytest.raises(
        gmn.StateDictMismatch, match=r"shape \(2, 2\), but the computation graph of Sequential"
    ):
        graph.evaluate(torch.zeros(2, 2))


def test_the_network_is_left_as_it_was():
    model = nn.Sequential(Linear(2, 3), nn.Dropout(), Linear(3, 1))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    gmn.computation_graph(model, (1, 2))
    assert model.training and model[1].training
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


# ------------------------------------------------------------------ the structure


def test_figure_2_of_the_paper():
    """16 edges for 4 parameters, 4 of each."""
    graph = gmn.computation_graph(Conv2d(1, 1, 2, stride=2, bias=False), (1, 1, 4, 4))
    assert (graph.num_nodes, graph.num_edges, graph.num_parameters) == (20, 16, 4)
    assert graph.sharing.bincount().tolist() == [4, 4, 4, 4]
    assert graph.target.bincount().tolist()[16:] == [4, 4, 4, 4]


def test_the_computation_graph_of_an_mlp_is_its_parameter_graph():
    model = randomised(mlp_of([2, 4, 3, 2]))
    graph, parameters = gmn.computation_graph(model, (1, 2)), gmn.trace(model, torch.zeros(1, 2).double())
    over = Lifting(parameters, graph).projection
    assert sorted(over.tolist()) == list(range(parameters.num_nodes))
    edges = zip(
        over[graph.source].tolist(), over[graph.target].tolist(), graph.edge_weights.tolist(), strict=True
    )
    found = zip(
        *parameters.edge_index.tolist(), parameters.edge_values(model.state_dict()).tolist(), strict=True
    )
    assert sorted(edges) == sorted(found)


def test_layers_of_a_residual_network():
    model, shape = FAMILIES["residual mlp"](Random(0))
    graph = gmn.computation_graph(model, shape)
    shown = [(layer.name, layer.kind) for layer in graph.layers if layer.kind != "bias"]
    assert shown == [
        ("input", "input"),
        ("0", "hidden"),
        ("1.branch.0", "hidden"),
        ("1.branch.2", "hidden"),
        ("2", "output"),
    ]
    assert graph.constants.tolist() == [1.0]
    residual = graph.sharing == graph.num_parameters
    assert int(residual.sum()) == graph.layers[1].size


def test_a_neuron_has_one_edge_to_another():
    """Around one layer the residual edge would lie beside a weight, so the sum has nodes of its own."""
    graph = gmn.computation_graph(CASES["residual around one"][0], (1, 3))
    pairs = torch.stack([graph.source, graph.target], dim=1)
    assert len(pairs.unique(dim=0)) == graph.num_edges
    assert [layer.size for layer in graph.layers] == [3, 3, 1, 3]


def test_depth_is_the_longest_path():
    graph = gmn.computation_graph(CASES["two branches"][0], (1, 3))
    assert graph.node_depth[graph.output.nodes].tolist() == [3, 3, 3]


# ------------------------------------------------------------------ what is refused

REFUSED = {
    "products of weights": (
        Composed(lambda x, a, b: x @ (a.weight * b.weight).T, *(Linear(2, 2, bias=False) for _ in range(2))),
        (1, 2),
        "instead of",
    ),
    "padded weights": (
        Composed(lambda x, a: x @ F.pad(a.weight, (0, 1)).T, Linear(2, 2, bias=False)),
        (1, 3),
        "instead of weights",
    ),
    "constant bias": (
        Composed(lambda x, a: F.conv1d(x, a.weight[..., None], torch.ones(2)), Linear(2, 2, bias=False)),
        (1, 2, 3),
        "instead of weights",
    ),
    "layer norm": (nn.Sequential(Linear(2, 3), nn.LayerNorm(3)), (1, 2), "native_layer_norm.*in '1'"),
    "max pool": (nn.Sequential(Conv2d(1, 1, 1), nn.MaxPool2d(2)), (1, 1, 4, 4), "max_pool2d"),
    "gate": (Composed(lambda x, a: a(x) * a(x).sigmoid(), Linear(2, 2)), (1, 2), "instead of"),
    "attention": (Composed(lambda x, a: a(x) @ a(x).T, Linear(2, 2)), (1, 2), "instead of"),
    "transposed": (nn.ConvTranspose1d(1, 1, 2), (1, 1, 3), "transposed"),
    "changed weight": (
        Composed(lambda x, a: x @ a.weight.relu().T, Linear(2, 2, bias=False)),
        (1, 2),
        "instead of neurons",
    ),
    "negative bias": (Composed(lambda x, a: x @ a.weight.T - a.bias, Linear(2, 2)), (1, 2), "as a bias"),
    "constant": (
        Composed(lambda x, a: a(x) + torch.ones(2), Linear(2, 2)),
        (1, 2),
        "only neurons can be added",
    ),
    "seen twice": (
        Composed(lambda x, a: a(torch.cat([x, x], 1)), Linear(4, 2)),
        (1, 2),
        "two weights between the same",
    ),
    "item": (
        Composed(lambda x, a: a(x) * (1.0 if a(x).sum().item() > 0 else 2.0), Linear(2, 2)),
        (1, 2),
        "_local_scalar_dense",
    ),
    "list": (
        Composed(lambda x, a: a(x) * len(a(x).tolist()), Linear(2, 2)),
        (1, 2),
        "hands values to Python",
    ),
    "padding made something": (
        Composed(lambda x, a: a(F.pad(x, (1, 1)).cos()), Linear(4, 2)),
        (1, 2),
        "padding",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_operations_are_refused_with_the_remedy(name):
    model, shape, message = REFUSED[name]
    with pytest.raises(gmn.UnsupportedOperation, match=message) as error:
        gmn.computation_graph(model, shape)
    assert "gmn.trace(model, x)" in str(error.value)


def test_unused_parameters_and_strange_results_are_refused():
    unused = Composed(lambda x, a, b: a(x), Linear(2, 2), Linear(2, 2))
    with pytest.raises(gmn.UnusedParameters, match=r"owned.1.weight, owned.1.bias"):
        gmn.computation_graph(unused, (1, 2))
    with pytest.raises(gmn.TraceError, match="returned a tuple"):
        gmn.computation_graph(Composed(lambda x, a: (a(x), x), Linear(2, 2)), (1, 2))
    with pytest.raises(gmn.TraceError, match=r"raised RuntimeError.*model\(torch.zeros\(\(1, 3\)\)\)"):
        gmn.computation_graph(mlp_of([2, 2]), (1, 3))
    with pytest.raises(gmn.TraceError, match="does not depend on its input"):
        gmn.computation_graph(Composed(lambda x, a: torch.ones(2), Linear(2, 2)), (1, 2))


def test_large_graphs_are_refused_before_they_are_built(monkeypatch):
    monkeypatch.setattr(builds, "ComputationGraphBuilder", lambda *_: pytest.fail("was built"))
    model = nn.Sequential(Conv2d(3, 16, 3), nn.ReLU(), Conv2d(16, 16, 3))
    edges = 16 * 30 * 30 * 27 + 16 * 28 * 28 * 144
    with pytest.raises(
        gmn.TooLarge, match=f"about {edges:,} edges.*one edge for each of its 2,768 parameters"
    ):
        gmn.computation_graph(model, (1, 3, 32, 32))


def test_the_limit_is_an_option():
    model = mlp_of([4, 4])
    with pytest.raises(gmn.TooLarge, match="max_edges=10"):
        gmn.computation_graph(model, (1, 4), max_edges=10)
    assert gmn.computation_graph(model, (1, 4), max_edges=16).num_edges == 20  # 4 are biases


# ------------------------------------------------------------------ metanetworks and pictures


@pytest.mark.parametrize("name", CASES)
def test_as_network_has_the_same_edges(name):
    model, shape = CASES[name]
    graph = gmn.computation_graph(randomised(model).eval(), shape)
    structure, weights = graph.as_network()
    order = edge_order(graph)
    assert torch.equal(structure.edge_index, torch.stack([graph.source, graph.target])[:, order])
    assert torch.equal(structure.edge_values(weights), graph.edge_weights[order])
    assert structure.num_parameters == len(graph.sharing[graph.sharing < graph.num_parameters].unique())


def test_metanetworks_run_on_computation_graphs():
    (network,) = random_networks(0, 1, "residual cnn")
    graph = gmn.computation_graph(network.model, network.shape)
    batch = gmn.collate([graph.as_network(), graph.as_network()])
    metanetwork = gmn.GraphMetanetwork(8, 2, level="edge").double()
    results = [metanetwork(batch, engine=engine) for engine in ("blocks", "stream", "edge_list")]
    assert results[0].shape == (2 * graph.num_edges, 1)
    for other in results[1:]:
        torch.testing.assert_close(other, results[0])


def test_pictures(tmp_path: Path):
    path = gmn.computation_graph(CASES["residual around one"][0], (1, 3)).plot(tmp_path / "graph.svg")
    text = path.read_text()
    assert (
        "constant 1" in text
        and "owned.0.weight[2, 2]" in text
        and "10 nodes · 18 edges · 12 parameters" in text
    )
    with pytest.raises(ValueError, match="more than 2,500 edges"):
        gmn.computation_graph(Linear(60, 60), (1, 60)).plot(path)
