"""Errors say what is wrong, and with which network."""

import pytest
import torch
from torch import nn

import graph_metanetworks as gmn
from support.permuted import one, weights
from support.traced import traced

graph, state = traced("mlp-relu").graph, weights("mlp-relu")
good = (graph, state)


def test_an_empty_batch():
    with pytest.raises(gmn.StateDictMismatch, match=r"empty batch.*at least one"):
        gmn.collate([])


BAD = {
    "missing": ({k: v for k, v in state.items() if k != "0.weight"}, r"missing: 0\.weight"),
    "extra": (state | {"surplus": torch.zeros(2)}, "not in the graph: surplus"),
    "shape": (state | {"0.weight": torch.zeros(2, 2)}, r"'0\.weight' has shape \(2, 2\)"),
    "nan": (state | {"0.bias": torch.full_like(state["0.bias"], torch.nan)}, r"'0\.bias' has .* NaN or inf"),
    "infinite": (state | {"0.bias": torch.full_like(state["0.bias"], torch.inf)}, "NaN or infinite"),
    "channels": ([state, state], "2 channels"),
    "no state dicts": ([], "empty list of state dicts"),
    "no state dict": (None, "NoneType|state dict"),
}


@pytest.mark.parametrize("bad", BAD)
def test_the_bad_network_is_named(bad):
    wrong, message = BAD[bad]
    with pytest.raises(gmn.StateDictMismatch, match=rf"(?s)culprit.*({message})"):
        gmn.collate([good, (graph, wrong)], names=["innocent", "culprit"])
    with pytest.raises(gmn.StateDictMismatch, match=rf"network 1 \({graph.name}\)"):
        gmn.collate([good, (graph, wrong)])


def test_nan_can_be_allowed():
    batch = gmn.collate([(graph, BAD["nan"][0])], allow_nonfinite=True)
    assert gmn.GraphMetanetwork(8, 1)(batch).isnan().any()


@pytest.mark.parametrize("engine", ["blocks", "stream", "edge_list"])
def test_unknown_kinds(engine):
    small = gmn.nn.Vocabulary(edge_kinds=("linear bias",))
    net = gmn.GraphMetanetwork(8, 1, vocabulary=small, engine=engine)
    with pytest.raises(gmn.nn.UnknownKind, match=r"culprit.*edge kinds.*'linear weight'.*extended"):
        net(gmn.collate([good], names=["culprit"]))
    net = gmn.GraphMetanetwork(8, 1, vocabulary=gmn.nn.Vocabulary(activations=("",)), engine=engine)
    with pytest.raises(gmn.nn.UnknownKind, match=r"culprit.*activations.*'relu'"):
        net(gmn.collate([good], names=["culprit"]))


def test_wrong_channels():
    with pytest.raises(ValueError, match=r"2 numbers on each edge.*channels=1.*channels=2"):
        gmn.GraphMetanetwork(8, 1)(gmn.collate([(graph, [state, state])]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": "layer"}, "level='layer' is none of graph, node, edge"),
        ({"readout": "best"}, "readout='best' at level 'graph' is none of edges, kinds, tensors, nodes, att"),
        ({"level": "node", "readout": "edit"}, "readout='edit' at level 'node' is none of each"),
        ({"aggregation": "median"}, "aggregation='median' is none of mean, sum, max, fan"),
        ({"engine": "warp"}, "engine='warp' is none of blocks, stream, edge_list"),
    ],
    ids=str,
)
def test_wrong_names(options, message):
    with pytest.raises(ValueError, match=message):
        gmn.GraphMetanetwork(8, 1, **options)


def test_wrong_names_later():
    with pytest.raises(ValueError, match="engine='warp' is none of"):
        gmn.GraphMetanetwork(8, 1)(one("mlp-relu").to(torch.float32), "warp")
    with pytest.raises(ValueError, match="no preset 'best'; there are accuracy"):
        gmn.GraphMetanetwork.preset("best")


def test_the_stream_runs_its_own_blocks_only():
    class Block(nn.Module):
        def forward(self, state, links):
            return state

    net = gmn.GraphMetanetwork(8, blocks=[Block()])
    batch = one("mlp-relu").to(torch.float32)
    assert net(batch).shape == (1, 1)
    with pytest.raises(ValueError, match=r"stream.*MessagePassing"):
        net(batch, "stream")


def test_one_name_for_each_network():
    with pytest.raises(ValueError, match="1 names for 2 networks"):
        gmn.collate([good, good], names=["only"])
