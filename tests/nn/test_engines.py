"""The engines give the same results and the same gradients."""

from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import graph_metanetworks as gmn
from graph_metanetworks.nn import bundles, execution
from graph_metanetworks.nn.engine import products
from graph_metanetworks.nn.engine import workers as engine_workers
from graph_metanetworks.nn.execution import BLOCKS
from support.permuted import weights
from support.traced import traced

READOUTS = [
    *(("graph", readout) for readout in ("edges", "kinds", "tensors", "nodes", "attention")),
    ("node", "each"),
    ("edge", "each"),
    ("edge", "ends"),
    ("edge", "edit"),
]
WAYS = ["blocks", "pieces", "stream", "small stream"]
Networks = list[tuple[gmn.ParameterGraph, dict[str, Tensor]]]


def set_plan(monkeypatch: pytest.MonkeyPatch, way: str) -> str:
    """Force a way of running, and name its engine."""
    small = {"list_below": 1, "whole_panels_below": 0, "piece_size": 16 * 40}
    if way == "pieces":
        monkeypatch.setattr(execution, "BLOCKS", replace(BLOCKS, **small))
    if way == "small stream":
        monkeypatch.setattr(execution, "STREAM", replace(execution.STREAM, **small))
    return "stream" if "stream" in way else "blocks"


def leaves(networks: Networks) -> Networks:
    return [
        (graph, {p.name: state[p.name].double().clone().requires_grad_() for p in graph.parameters})
        for graph, state in networks
    ]


def outcome(net: gmn.GraphMetanetwork, networks: Networks, engine: str) -> tuple[Tensor, list[Tensor]]:
    """The result, and the gradients of the metanetwork's parameters and of the weights on the edges."""
    networks = leaves(networks)
    inputs = [*net.parameters(), *(value for _, state in networks for value in state.values())]
    result = net(gmn.collate(networks), engine)
    loss = (result * torch.linspace(-1, 2, result.numel()).view_as(result)).sin().sum()
    grads = torch.autograd.grad(loss, inputs, allow_unused=True)
    return result.detach(), [
        torch.zeros_like(x) if g is None else g for x, g in zip(inputs, grads, strict=True)
    ]


def assert_same(net: gmn.GraphMetanetwork, networks: Networks, ways=WAYS) -> None:
    expected, expected_grads = outcome(net, networks, "edge_list")
    assert any(bool(grad.any()) for grad in expected_grads[-3:])
    for way in ways:
        with pytest.MonkeyPatch.context() as patch:
            found, grads = outcome(net, networks, set_plan(patch, way))
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10, msg=lambda m, w=way: f"{w}: {m}")
        for ours, theirs in zip(grads, expected_grads, strict=True):
            size = float(theirs.abs().max())
            torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-10 * max(1, size))


def mixed() -> Networks:
    first, second = "mlp-relu", "cnn-1d-batch-norm"
    other = {name: 2 * value for name, value in weights(first).items()}
    return [
        (traced(first).graph, weights(first)),
        (traced(second).graph, weights(second)),
        (traced(first).graph, other),
    ]


MESSAGES = {  # aggregation, two-way, global feature
    "mean": ("mean", True, False),
    "directed mean": ("mean", False, True),
    "sum": ("sum", True, True),
    "max": ("max", True, True),
    "fan": ("fan", False, False),
}


PAIRS = [  # each readout with one kind of messages; the others are slow
    pytest.param(*readout, message, marks=[] if i % len(MESSAGES) == j else pytest.mark.slow)
    for i, readout in enumerate(READOUTS)
    for j, message in enumerate(MESSAGES)
]


@pytest.mark.parametrize(("level", "readout", "messages"), PAIRS)
def test_engines_agree(level, readout, messages):
    aggregation, two_way, global_feature = MESSAGES[messages]
    net = gmn.GraphMetanetwork(
        16,
        2,
        2 if readout != "edit" else 1,
        level=level,
        readout=readout,
        aggregation=aggregation,
        two_way=two_way,
        global_feature=global_feature,
    ).double()
    if net.first_global is not None:
        nn.init.normal_(net.first_global)
    assert_same(net, mixed(), ["blocks", "pieces", "small stream"])


large = [pytest.param(name, marks=pytest.mark.slow) for name in ("transformer-encoder", "hf-llama")]


@pytest.mark.parametrize("name", ["lstm", "grid-triplane", "gcn", *large])
def test_engines_agree_on(name):
    net = gmn.GraphMetanetwork(16, 2, 2, global_feature=True, fourier=2).double()
    assert_same(net, [(traced(name).graph, weights(name))])


PRODUCTS = [("graph", "groups"), ("graph", "kinds"), ("node", "each"), ("edge", "each"), ("edge", "edit")]
PRODUCTS += [("edge", "ends")]


@pytest.mark.parametrize(("level", "readout"), PRODUCTS)
def test_engines_agree_on_matrix_products(level, readout, monkeypatch):
    monkeypatch.setattr(products, "PIECE", 20)  # weights: pieces of some rows, and of some matrices
    out = 1 if readout == "edit" else 2
    net = gmn.GraphMetanetwork(8, 2, out, level=level, readout=readout, blocks="matrix-product").double()
    net.fit([gmn.collate(mixed()).to(torch.float64)])
    assert_same(net, mixed(), ["blocks", "stream"])


@pytest.mark.parametrize("name", ["lstm", "transformer-encoder", "grid-triplane", "hf-llama"])
def test_engines_agree_on_matrix_products_of(name):
    net = gmn.GraphMetanetwork(8, 2, 2, blocks="matrix-product").double()
    assert_same(net, [(traced(name).graph, weights(name))], ["blocks", "stream"])


@pytest.mark.parametrize("listed", [0, 10_000], ids=["panels", "a list"])
@pytest.mark.parametrize(("level", "readout"), PRODUCTS)
def test_engines_agree_on_bundles(level, readout, listed, monkeypatch):
    monkeypatch.setattr(bundles, "PIECE", 8 * 20)  # numbers: pieces of some rows, and of some matrices
    monkeypatch.setattr(bundles, "LIST_BELOW", listed)
    out = 1 if readout == "edit" else 2
    net = gmn.GraphMetanetwork(8, 3, out, level=level, readout=readout, blocks="bundles").double()
    net.fit([gmn.collate(mixed()).to(torch.float64)])
    assert_same(net, mixed(), ["blocks", "stream"])


@pytest.mark.parametrize("name", ["lstm", "transformer-encoder", "grid-triplane", "hf-llama"])
def test_engines_agree_on_bundles_of(name):
    net = gmn.GraphMetanetwork(8, 2, 2, blocks="bundles").double()
    assert_same(net, [(traced(name).graph, weights(name))], ["blocks", "stream"])


def test_workers_share_the_rows_of_a_matrix(monkeypatch):
    """Weights need no gradient here: the backward pass is the same product, with its arguments exchanged."""
    monkeypatch.setattr(products, "PIECE", 20)
    net = gmn.GraphMetanetwork(8, 2, 2, blocks="matrix-product").double()
    graph, state = traced("mlp-relu").graph, weights("mlp-relu")
    batch = gmn.collate([(graph, state)]).to(torch.float64)
    expected = torch.autograd.grad(net(batch).square().sum(), list(net.parameters()), allow_unused=True)
    for workers in (1, 2):
        result = net(batch, "stream", workers=workers)
        torch.testing.assert_close(result, net(batch), rtol=1e-10, atol=1e-10)
        found = torch.autograd.grad(result.square().sum(), list(net.parameters()), allow_unused=True)
        for ours, theirs in zip(found, expected, strict=True):
            if theirs is not None:
                torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("blocks", ["matrix-product", "bundles"])
def test_half_precision_is_read_as_it_is(blocks):
    net = gmn.GraphMetanetwork(8, 2, blocks=blocks)
    graph, state = traced("mlp-relu").graph, weights("mlp-relu")
    half = gmn.collate([(graph, {name: value.half() for name, value in state.items()})])
    rounded = gmn.collate([(graph, {name: value.half().float() for name, value in state.items()})])
    for engine in ("blocks", "stream"):
        torch.testing.assert_close(net(half, engine), net(rounded, engine))


class OwnReadout(gmn.nn.Readout):
    """Reads everything, in the order of the list of edges."""

    def forward(self, state, links):
        weight = torch.linspace(0, 1, state.edges.shape[1], dtype=state.edges.dtype)
        pooled = torch.stack([nodes.mean(0) for nodes in links.batch.split_nodes(state.nodes)])
        terms = (state.edges * links.panel.values) @ weight
        return (
            pooled @ weight[:, None]
            + terms.new_zeros(len(pooled)).index_add(0, links.edge_network, terms)[:, None]
        )


def test_engines_agree_with_a_readout_of_ones_own():
    assert_same(gmn.GraphMetanetwork(16, 2, readout=OwnReadout()).double(), mixed())


# ------------------------------------------------------------------ random shapes

widths = st.lists(st.integers(1, 6), min_size=2, max_size=4)


def mlp(sizes: list[int]) -> nn.Module:
    layers = [nn.Linear(a, b) for a, b in pairwise(sizes)]
    return nn.Sequential(*(module for layer in layers for module in (layer, nn.Tanh())))


def cnn(sizes: list[int]) -> nn.Module:
    return nn.Sequential(*(nn.Conv1d(a, b, 3, padding=1) for a, b in pairwise(sizes)))


@given(st.lists(st.tuples(st.sampled_from([mlp, cnn]), widths, st.integers(1, 3)), min_size=1, max_size=4))
@settings(max_examples=8)
def test_random_batches(chosen):
    torch.manual_seed(0)
    networks = []
    for make, sizes, copies in chosen:
        shape = (1, sizes[0], 5) if make is cnn else (1, sizes[0])
        models = [make(sizes) for _ in range(copies)]
        graph = gmn.trace(models[0], torch.randn(shape))
        networks += [(graph, model.state_dict()) for model in models]
    assert_same(gmn.GraphMetanetwork(16, 2, 2, level="edge").double(), networks, ["pieces", "small stream"])


# ------------------------------------------------------------------ options of the stream


@pytest.mark.parametrize("level", ["graph", "edge"])
@pytest.mark.parametrize("aggregation", ["mean", "max"])
@pytest.mark.parametrize("workers", [1, 3])
def test_workers_of_the_stream_change_nothing(workers, aggregation, level, monkeypatch):
    set_plan(monkeypatch, "small stream")
    monkeypatch.setattr(engine_workers, "MIN_PIECES", 1)
    batch = gmn.collate(mixed()).to(torch.float64)
    net = gmn.GraphMetanetwork(16, 2, level=level, aggregation=aggregation).double()
    threads = torch.get_num_threads()
    with torch.no_grad():
        torch.testing.assert_close(
            net(batch, "stream", workers=workers, progress=workers == 3), net(batch), rtol=1e-11, atol=1e-11
        )
    assert torch.get_num_threads() == threads


def test_gradients_of_threads_are_those_of_one_and_always_the_same(monkeypatch):
    set_plan(monkeypatch, "small stream")
    batch = gmn.collate(mixed()).to(torch.float64)
    net = gmn.GraphMetanetwork(16, 2, aggregation="mean", global_feature=True).double()

    def gradients(workers: int) -> list[Tensor]:
        loss = net(batch, "stream", workers=workers).square().sum()
        return [*torch.autograd.grad(loss, [*net.parameters()], allow_unused=True)]

    one, three, again = gradients(1), gradients(3), gradients(3)
    torch.testing.assert_close(three, one, rtol=1e-11, atol=1e-11)
    assert all(a is b or torch.equal(a, b) for a, b in zip(three, again, strict=True))


def test_what_fails_in_a_thread_ends_the_run(monkeypatch):
    set_plan(monkeypatch, "small stream")
    net = gmn.GraphMetanetwork(16, 2)
    batch = gmn.collate(mixed())
    threads, calls = torch.get_num_threads(), []

    def updated(*_, **__):
        calls.append(1)
        raise RuntimeError("out of luck")

    monkeypatch.setattr(engine_workers, "MIN_PIECES", 1_000_000)  # threads

    monkeypatch.setattr(net.blocks[0], "updated", updated)
    with pytest.raises(RuntimeError, match="out of luck"), torch.no_grad():
        net(batch, "stream", workers=3)
    assert torch.get_num_threads() == threads and len(calls) <= 3


def test_the_engine_of_the_constructor_is_used():
    net = gmn.GraphMetanetwork(16, 2, engine="stream")
    seen = []
    net.blocks[0].register_forward_hook(lambda *_: seen.append("edge_list"))
    batch = gmn.collate(mixed())
    net(batch)
    assert not seen
    net(batch, "edge_list")
    assert seen == ["edge_list"]
