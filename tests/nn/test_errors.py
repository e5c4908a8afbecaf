"""Errors say what is wrong, and with which network."""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

import graph_metanetworks as gmn
from graph_metanetworks.nn.baselines import DMC, StatNN, WeightSet
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


def labelled() -> DataLoader:
    return DataLoader([(good, 0.5), (good, 0.7)], batch_size=2, collate_fn=gmn.collate)


def triples() -> DataLoader:
    return DataLoader([(*good, 0.5), (*good, 0.7)], batch_size=2, collate_fn=gmn.collate)


model = nn.Linear(3, 2)
TRACED = r"gmn\.collate\(\[\(gmn\.trace\(model, example\), "
WRONG_TYPES = {
    "a model": (lambda: gmn.collate(model), rf"not a Linear\. Write: {TRACED}model\.state_dict\(\)\)\]\)$"),
    "models": (lambda: gmn.collate([model]), rf"item 0 is a Linear\. Write: {TRACED}model\.state_dict"),
    "untraced": (
        lambda: gmn.collate([good, (model, state)]),
        rf"item 1 is \(Linear, OrderedDict|dict\)\. Write: {TRACED}model\.state_dict",
    ),
    "state dicts": (
        lambda: gmn.collate([model.state_dict()]),
        rf"item 0 is an OrderedDict\. Write: {TRACED}state_dict",
    ),
    "a state dict": (lambda: gmn.collate(state), rf"not a dict\. Write: {TRACED}state_dict"),
    "a graph": (
        lambda: gmn.collate(graph),
        r"ParameterGraph\. Write: gmn\.collate\(\[\(graph, model\.state_d",
    ),
    "a pair": (
        lambda: gmn.collate(good),
        r"\(ParameterGraph, dict\)\. Write: gmn\.collate\(\[\(graph, state_d",
    ),
    "a number": (lambda: gmn.collate(3), rf"not an int\. Write: {TRACED}"),
    "a batch": (lambda: gmn.collate(gmn.collate([good])), r"not a Batch\. Write: metanetwork\(batch\)"),
    "labelled pairs": (
        lambda: next(iter(labelled())),
        r"item 0 is \(\(ParameterGraph, dict\), float\)\. Write: collate_fn=lambda items: "
        r"\(gmn\.collate\(\[pair for pair, _ in items\]\), torch\.tensor",
    ),
    "labelled triples": (
        lambda: next(iter(triples())),
        r"item 0 is \(ParameterGraph, dict, float\)\. Write: collate_fn=lambda items: "
        r"\(gmn\.collate\(\[item\[:2\] for item in items\]\), torch\.tensor",
    ),
}


@pytest.mark.parametrize("wrong", WRONG_TYPES)
def test_wrong_types_for_collate(wrong):
    call, message = WRONG_TYPES[wrong]
    with pytest.raises(TypeError, match=message):
        call()


def test_what_the_messages_propose_works():
    pairs, items = [(good, 0.5), (good, 0.7)], [(*good, 0.5), (*good, 0.7)]
    for data in (pairs, items):
        with pytest.raises(TypeError) as caught:
            gmn.collate(data)
        proposed = str(caught.value).partition("Write: collate_fn=")[2]
        collate = eval(proposed, {"gmn": gmn, "torch": torch})
        batch, labels = next(iter(DataLoader(data, batch_size=2, collate_fn=collate)))
        assert len(batch) == 2 and torch.equal(labels, torch.tensor([0.5, 0.7]))


METANETWORKS = {
    "gmn": lambda: gmn.GraphMetanetwork(8, 1),
    "statnn": lambda: StatNN(8),
    "dmc": lambda: DMC((4, 6), 8),
    "deepsets": lambda: WeightSet(4, 8),
}
NO_BATCH = {
    "a graph": (
        graph,
        r"not a ParameterGraph\. Write: metanetwork\(gmn\.collate\(\[\(graph, model\.state_dict",
    ),
    "a model": (model, rf"not a Linear\. Write: metanetwork\({TRACED}model\.state_dict"),
    "a pair": (
        good,
        r"\(ParameterGraph, dict\)\. Write: metanetwork\(gmn\.collate\(\[\(graph, state_dict\)\]\)\)",
    ),
    "pairs": ([good, good], r"Write: metanetwork\(gmn\.collate\(pairs\)\)"),
    "a labelled batch": ((gmn.collate([good]), 1.0), r"not \(Batch, float\)\. Write: batch, labels = item"),
    "a tensor": (torch.zeros(3), rf"not a Tensor\. Write: metanetwork\({TRACED}"),
}


@pytest.mark.parametrize("wrong", NO_BATCH)
@pytest.mark.parametrize("name", METANETWORKS)
def test_wrong_types_for_metanetworks(name, wrong):
    value, message = NO_BATCH[wrong]
    with pytest.raises(TypeError, match=message):
        METANETWORKS[name]()(value)


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
        (
            {"readout": "best"},
            "readout='best' at level 'graph' is none of edges, kinds, tensors, groups, nodes, att",
        ),
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
    with pytest.raises(ValueError, match=r"stream.*matrix products only"):
        net(batch, "stream")


def test_one_name_for_each_network():
    with pytest.raises(ValueError, match="1 names for 2 networks"):
        gmn.collate([good, good], names=["only"])
