"""Convolutions of PyTorch Geometric as blocks."""

import pytest
import torch
from torch_geometric.nn import GATv2Conv, GINEConv, GPSConv, TransformerConv

import graph_metanetworks as gmn
from graph_metanetworks.nn.mlp import Mlp
from support.permuted import (
    assert_all_learn,
    assert_batch_independent,
    assert_equivariant,
    assert_gradients_correct,
    assert_sensitive,
)

CONVOLUTIONS = {
    "GINEConv": lambda: GINEConv(Mlp(16, 16, 16)),
    "GATv2Conv": lambda: GATv2Conv(16, 4, heads=4, edge_dim=16, add_self_loops=False),
    "TransformerConv": lambda: TransformerConv(16, 4, heads=4, edge_dim=16),
    "GPSConv": lambda: GPSConv(16, GINEConv(Mlp(16, 16, 16)), heads=4, norm="layer_norm"),
}


@pytest.fixture(params=CONVOLUTIONS)
def blocks(request):
    torch.manual_seed(0)
    return [gmn.nn.PygBlock(CONVOLUTIONS[request.param](), 16) for _ in range(2)]


@pytest.mark.parametrize("level", ["graph", "node", "edge"])
def test_equivariant_and_batch_independent(blocks, level):
    net = gmn.GraphMetanetwork(16, out=3, level=level, blocks=blocks).double()
    for name in ("mlp-relu", "cnn-2d-batch-norm", "lstm"):
        assert_equivariant(net, name)
    assert_batch_independent(net)


def test_sensitive_to_wrong_permutations(blocks):
    assert_sensitive(gmn.GraphMetanetwork(16, blocks=blocks).double())


def test_every_parameter_learns(blocks):
    assert_all_learn(gmn.GraphMetanetwork(16, level="edge", blocks=blocks).double())


def test_every_parameter_learns_without_edge_updates(blocks):
    last = gmn.nn.PygBlock(CONVOLUTIONS["GINEConv"](), 16, updates_edges=False)
    assert_all_learn(gmn.GraphMetanetwork(16, level="node", blocks=[*blocks, last]).double())


def test_gradients():
    torch.manual_seed(0)
    assert_gradients_correct(gmn.nn.PygBlock(GINEConv(Mlp(3, 3, 3)), 3), 3)


def test_networks_do_not_attend_to_one_another():
    assert gmn.nn.PygBlock(CONVOLUTIONS["GPSConv"](), 16).takes_batch
    assert not gmn.nn.PygBlock(CONVOLUTIONS["GINEConv"](), 16).takes_batch
