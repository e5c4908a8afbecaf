"""A batch gives what its members give one by one."""

from dataclasses import replace

import pytest
import torch
from torch import nn

import graph_metanetworks as gmn
from graph_metanetworks.graph.elements import Elements
from support.permuted import many, one, weights
from support.traced import traced

NAMES = ["lstm", "mlp-relu", "cnn-2d-batch-norm", "mlp-relu", "deep-sets", "lstm"]
LEVELS = [("graph", name) for name in ("edges", "kinds", "tensors", "attention", "nodes")]
LEVELS += [("node", "each"), ("edge", "each"), ("edge", "ends"), ("edge", "edit")]


@pytest.mark.parametrize("engine", ["blocks", "stream", "edge_list"])
@pytest.mark.parametrize(("level", "readout"), LEVELS)
@torch.no_grad()
def test_as_one_by_one(level, readout, engine):
    net = gmn.GraphMetanetwork(16, 2, level=level, readout=readout, global_feature=True, engine=engine)
    net.double()
    singly = {name: net(one(name)) for name in set(NAMES)}
    for names in (NAMES, NAMES[::-1], ["mlp-relu"] * 3):
        alone = torch.cat([singly[name] for name in names])
        torch.testing.assert_close(net(many(names)), alone, rtol=1e-9, atol=1e-10)


@torch.no_grad()
def test_stacked_or_not():
    """Networks that share a graph, and the same networks with graphs of their own."""
    models = [nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)) for _ in range(3)]
    graphs = [gmn.trace(model, torch.randn(1, 3)) for model in models]
    stacked = gmn.collate([(graphs[0], model.state_dict()) for model in models])
    apart = gmn.collate([(graph, m.state_dict()) for graph, m in zip(graphs, models, strict=True)])
    assert (len(stacked.stacks), len(apart.stacks)) == (1, 3)
    net = gmn.GraphMetanetwork(16, 2, level="edge")
    torch.testing.assert_close(net(stacked), net(apart))


def test_sizes_and_names():
    batch = many(NAMES)
    assert len(batch) == len(NAMES) == len(batch.graphs)
    assert batch.names[1] == "network 1 (Sequential)"
    assert batch.graphs[1] is batch.graphs[3] is traced("mlp-relu").graph
    assert batch.num_edges == sum(traced(name).graph.num_edges for name in NAMES)
    assert batch.num_nodes == sum(traced(name).graph.num_nodes for name in NAMES)
    named = gmn.collate([(traced("lstm").graph, weights("lstm"))], names=["mine"])
    assert named.names == ("mine",)


def test_a_batch_is_shown_in_a_line():
    batch = many(NAMES)
    shown = repr(batch)
    assert len(shown.splitlines()) == 1 and len(shown) < 150
    assert "networks=6, architectures=4" in shown and f"edges={batch.num_edges:,}" in shown
    assert repr(batch.stacks[0]).startswith("Stack(") and len(repr(batch.stacks)) < 400


def test_any_iterable_is_collated():
    pairs = [(traced(name).graph, weights(name)) for name in NAMES]
    for networks in (pairs, tuple(pairs), iter(pairs), (pair for pair in pairs)):
        assert len(gmn.collate(networks)) == len(NAMES)


def test_moved_and_cast():
    batch = many(NAMES)
    assert batch.to(torch.float32).dtype == torch.float32 and batch.dtype == torch.float64
    assert batch.to("meta").device.type == "meta"
    assert batch.to(torch.float32).names == batch.names


def test_weights_go_in_and_come_out():
    """The result of the identity, as state dicts: bit for bit what was collated."""
    networks = [(traced(name).graph, weights(name)) for name in NAMES]
    values = torch.cat([graph.edge_values(state) for graph, state in networks])
    batch = gmn.collate(networks)
    for edges in (values, values[:, None]):
        for (graph, state), found in zip(networks, batch.state_dicts(edges), strict=True):
            assert set(found) == set(state) - graph.ignored
            assert all(torch.equal(found[name], state[name]) for name in found)
    (first, *_) = batch.state_dicts(torch.stack([values, -values], dim=1))
    for name, value in first.items():
        assert torch.equal(value, torch.stack([weights(NAMES[0])[name], -weights(NAMES[0])[name]], dim=-1))


@pytest.mark.parametrize("names", [NAMES, ["mlp-relu"] * 3, ["attention-packed-qkv", "lstm"] * 2])
def test_stacked_edges_are_the_weights_again(names):
    """Also where blocks are parts of a parameter, or several networks share a graph; gradients flow back."""
    batch = many(names)
    values = torch.cat(
        [graph.edge_values(weights(name)) for graph, name in zip(batch.graphs, names, strict=True)]
    )
    edges = values.double().requires_grad_()
    again = batch.stacked(torch.stack([edges, 2 * edges], dim=1))
    for found, given in zip(again.stacks, batch.stacks, strict=True):
        assert found.members == given.members and found.weights.keys() == given.weights.keys()
        for name, value in found.weights.items():
            assert torch.equal(value, torch.cat([given.weights[name], 2 * given.weights[name]], dim=-1))
    sum(value.sum() for stack in again.stacks for value in stack.weights.values()).backward()
    owned = [graph.num_parameters for graph in batch.graphs]
    assert edges.grad is not None and edges.grad.sum() == 3 * sum(owned)
    with pytest.raises(gmn.StateDictMismatch, match="one row per edge"):
        batch.stacked(edges[1:])


def test_stacked_edges_of_a_parameter_in_another_order():
    """Where the first dimension of a block is the fastest."""
    graph = traced("mlp-relu").graph
    blocks = [
        replace(block, elements=Elements(block.shape, 0, (1, block.shape[0])))
        if len(block.shape) == 2
        else block
        for block in graph.blocks
    ]
    turned = replace(graph, blocks=tuple(blocks))
    batch = gmn.collate([(turned, weights("mlp-relu"))] * 2)
    values = turned.edge_values(weights("mlp-relu")).repeat(2)
    (given,), (found,) = batch.stacks, batch.stacked(values).stacks
    assert all(torch.equal(value, given.weights[name]) for name, value in found.weights.items())


def test_results_are_split_by_network():
    batch = many(NAMES)
    nodes = batch.split_nodes(torch.arange(batch.num_nodes)[:, None])
    edges = batch.split_edges(torch.arange(batch.num_edges)[:, None])
    assert [len(own) for own in nodes] == [graph.num_nodes for graph in batch.graphs]
    assert [len(own) for own in edges] == [graph.num_edges for graph in batch.graphs]
    assert [int(own[0]) for own in edges] == list(batch.edge_starts[:-1])


@torch.no_grad()
def test_editing_starts_near_the_weights():
    net = gmn.GraphMetanetwork(16, 2, level="edge", readout="edit").double()
    nn.init.zeros_(net.readout.gamma)
    batch = many(NAMES)
    for found, name in zip(batch.state_dicts(net(batch)), NAMES, strict=True):
        for key, value in found.items():
            torch.testing.assert_close(value, weights(name)[key].to(value.dtype))


@pytest.mark.parametrize("engine", ["blocks", "stream", "edge_list"])
@torch.no_grad()
def test_two_channels(engine):
    graph, first = traced("mlp-relu").graph, weights("mlp-relu")
    second = {name: torch.randn_like(value) for name, value in first.items()}
    net = gmn.GraphMetanetwork(16, 2, channels=2, engine=engine)
    together = {name: torch.stack([first[name], second[name]], dim=-1) for name in first}
    result = net(gmn.collate([(graph, [first, second])]))
    torch.testing.assert_close(net(gmn.collate([(graph, together)])), result)
    assert not torch.allclose(net(gmn.collate([(graph, [second, first])])), result)
    zero = {name: torch.zeros_like(value) for name, value in first.items()}
    assert not torch.allclose(net(gmn.collate([(graph, [first, zero])])), result)
