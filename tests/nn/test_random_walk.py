"""Random-walk encodings against dense powers, and as a block."""

import gc

import pytest
import torch
from torch import nn

import graph_metanetworks as gmn
from graph_metanetworks.nn import random_walk
from graph_metanetworks.nn.random_walk import random_walks
from support.permuted import NAMES, assert_all_learn, assert_batch_independent, assert_equivariant, many, one
from support.traced import sample, traced


def dense_powers(graph: gmn.ParameterGraph, steps: int) -> torch.Tensor:  # [steps, N, N]
    adjacency = torch.zeros(graph.num_nodes, graph.num_nodes, dtype=torch.float64)
    source, target = graph.edge_index
    adjacency[source, target] = adjacency[target, source] = 1
    step = adjacency / adjacency.sum(1, keepdim=True)
    return torch.stack([torch.linalg.matrix_power(step, k) for k in range(steps)])


@pytest.mark.parametrize("starts_at_once", [5, 256])
@pytest.mark.parametrize("name", NAMES)
def test_equal_dense_powers(name, starts_at_once, monkeypatch):
    monkeypatch.setattr(random_walk, "STARTS_AT_ONCE", starts_at_once)
    graph = traced(name).graph
    walks, powers = random_walk._walk(graph, 5), dense_powers(graph, 5)
    torch.testing.assert_close(walks.across, powers[:, walks.pairs[0], walks.pairs[1]].T)
    torch.testing.assert_close(walks.returns, powers.diagonal(dim1=1, dim2=2).T)


def test_the_numbers_of_a_path():
    graph = gmn.trace(nn.Linear(2, 1, bias=False), torch.randn(1, 2))  # 0 - 2 - 1
    walks = random_walks(graph, 4)
    assert walks.pairs.T.tolist() == [[0, 2], [1, 2], [2, 0], [2, 1]]
    assert walks.across.tolist() == [[0, 1, 0, 1], [0, 1, 0, 1], [0, 0.5, 0, 0.5], [0, 0.5, 0, 0.5]]


@torch.no_grad()
def test_each_edge_gets_both_ways():
    torch.manual_seed(0)
    batch, steps = many(["lstm", "mlp-relu", "lstm"]), 4
    links = gmn.nn.Links(batch)
    encoder = gmn.nn.RandomWalkEncoder(6, steps).double()
    state = gmn.nn.State(torch.zeros(batch.num_nodes, 6).double(), torch.zeros(batch.num_edges, 6).double())
    after = encoder(state, links)
    own = [dense_powers(graph, steps) for graph in batch.graphs]
    powers = torch.stack([torch.block_diag(*(powers[k] for powers in own)) for k in range(steps)])
    ways = torch.cat([powers[:, links.source, links.target], powers[:, links.target, links.source]]).T
    torch.testing.assert_close(after.edges, ways @ encoder.edge.weight.T)
    torch.testing.assert_close(after.nodes, powers.diagonal(dim1=1, dim2=2).T @ encoder.node.weight.T)


@pytest.mark.parametrize("name", NAMES)
def test_symmetries_keep_the_numbers(name):
    graph = traced(name).graph
    returns = random_walks(graph, 6).returns
    torch.testing.assert_close(returns[sample(graph).nodes], returns)


def in_front(level: str) -> gmn.GraphMetanetwork:
    torch.manual_seed(0)
    blocks = [gmn.nn.RandomWalkEncoder(12, 4), gmn.nn.MessagePassing(12)]
    return gmn.GraphMetanetwork(12, level=level, blocks=blocks).double()


@pytest.mark.parametrize("level", ["graph", "node", "edge"])
def test_any_block_may_follow(level):
    net = in_front(level)
    assert_equivariant(net, "cnn-2d-batch-norm")
    assert_batch_independent(net)


def test_every_parameter_learns():
    assert_all_learn(in_front("edge"))


def test_computed_once_and_forgotten_with_the_graph():
    graph = gmn.trace(nn.Linear(2, 3), torch.randn(1, 2))
    assert random_walks(graph, 3) is random_walks(graph, 3)
    assert random_walks(graph, 2).returns.shape == (graph.num_nodes, 2)
    before = len(random_walk._WALKS)
    del graph
    gc.collect()
    assert len(random_walk._WALKS) < before


def test_large_graphs_are_refused():
    net = gmn.GraphMetanetwork(8, blocks=[gmn.nn.RandomWalkEncoder(8, 3, max_nodes=20)])
    with pytest.raises(ValueError, match=r"32 nodes, more than max_nodes=20.*raise max_nodes"):
        net(one("mlp-relu").to(torch.float32))
