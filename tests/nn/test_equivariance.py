"""Symmetries of a network change nothing at graph level, and permute results on nodes and edges."""

from functools import cache

import pytest
import torch
from torch import Tensor, nn

import graph_metanetworks as gmn
from support.permuted import NAMES, assert_equivariant
from support.traced import BY_NAME, every_architecture, one_of_each_family, some_architectures, traced

LEVELS = ("graph", "node", "edge")


@cache
def metanetwork(dtype=torch.float64, **options) -> gmn.GraphMetanetwork:
    torch.manual_seed(0)
    return gmn.GraphMetanetwork(16, 2, options.pop("out", 2), **options).to(dtype)


@every_architecture
def test_the_menagerie(name):
    """At edges, whose states need those of the nodes at both ends."""
    assert_equivariant(metanetwork(level="edge"), name)


@pytest.mark.parametrize("level", ("graph", "node"))
@some_architectures()
def test_other_levels(name, level):
    assert_equivariant(metanetwork(level=level), name)


@every_architecture
def test_matrix_products_on_the_menagerie(name):
    """At nodes: a readout for networks can be no less invariant."""
    assert_equivariant(metanetwork(level="node", blocks="matrix-product"), name)


@every_architecture
def test_bundles_on_the_menagerie(name):
    """At nodes, whose states need those of bundles."""
    assert_equivariant(metanetwork(level="node", blocks="bundles"), name)


@pytest.mark.parametrize("blocks", ("matrix-product", "bundles"))
@pytest.mark.parametrize("level", ("graph", "edge"))
@one_of_each_family
def test_pairs_of_neurons(name, level, blocks):
    assert_equivariant(metanetwork(level=level, blocks=blocks), name)


@pytest.mark.parametrize("level", LEVELS)
@one_of_each_family
def test_in_single_precision(name, level):
    assert_equivariant(metanetwork(torch.float32, level=level), name)


OPTIONS = {
    **{aggregation: {"aggregation": aggregation} for aggregation in ("sum", "max", "fan")},
    "directed": {"two_way": False},
    "global": {"global_feature": True},
    "fourier": {"fourier": 3},
    "stream": {"engine": "stream"},
    "edge list": {"engine": "edge_list"},
    "all": {"aggregation": "max", "two_way": False, "global_feature": True, "fourier": 1},
}


slow = pytest.mark.slow


@pytest.mark.parametrize("level", ["edge", *(pytest.param(level, marks=slow) for level in ("graph", "node"))])
@pytest.mark.parametrize("option", OPTIONS)
def test_every_option(option, level):
    for name in NAMES:
        assert_equivariant(metanetwork(level=level, **OPTIONS[option]), name)


@pytest.mark.parametrize("readout", ["kinds", "tensors", "nodes", "attention"])
def test_every_readout(readout):
    for name in NAMES:
        assert_equivariant(metanetwork(readout=readout), name)


def test_edits():
    for name in NAMES:
        assert_equivariant(metanetwork(level="edge", readout="edit", out=1), name)
        assert_equivariant(metanetwork(level="edge", readout="ends"), name)


@pytest.mark.parametrize("options", [{"attention": "shared"}, {"heads": "index"}], ids=str)
@pytest.mark.parametrize("name", ["attention-packed-qkv", "transformer-encoder"])
def test_other_graphs_of_attention(name, options):
    case = traced(name)
    tracer = gmn.Tracer(**(dict(BY_NAME[name].tracer) | options))
    graph = tracer.trace(case.model, *case.args, **case.kwargs)
    for level in LEVELS:
        gmn.testing.assert_equivariant(metanetwork(level=level), graph, case.model)


@pytest.mark.parametrize("name", NAMES)
def test_gradients_are_permuted_with_the_weights(name):
    """Two channels, of which the second is permuted as the first is."""
    graph, model = traced(name).graph, traced(name).model
    net = metanetwork(channels=2, level="node")
    first = {p.name: model.state_dict()[p.name].double() for p in graph.parameters}
    second = {key: torch.randn_like(value) for key, value in first.items()}
    swap = graph.symmetry.sample(torch.Generator().manual_seed(0))
    both = [(graph, [first, second]), (graph, [swap.apply(first), swap.apply(second)])]
    torn = (graph, [swap.apply(first), second])
    with torch.no_grad():
        before, after, wrong = net(gmn.collate([*both, torn])).split(graph.num_nodes)
    torch.testing.assert_close(after[swap.nodes], before, rtol=1e-9, atol=1e-10)
    assert not torch.allclose(wrong[swap.nodes], before, rtol=1e-6, atol=1e-6)


# ------------------------------------------------------------------ the oracle finds mistakes


class NumberedEdges(gmn.nn.EdgeEncoder):
    """Tells the edges of a block apart by their number, which a symmetry does not keep."""

    def terms(self, panel, batch) -> list[Tensor]:
        values, base, *rest = super().terms(panel, batch)
        number = torch.arange(panel.num_edges).view(*panel.shape, 1) / panel.num_edges
        return [values, base * (1 + number), *rest]


class NumberedNodes(gmn.nn.NodeEncoder):
    def forward(self, batch) -> Tensor:
        return super().forward(batch) * (1 + torch.arange(batch.num_nodes)[:, None])


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_oracle_finds_numbered_edges(dtype, level):
    encoder = NumberedEdges(16, gmn.nn.Vocabulary())
    net = gmn.GraphMetanetwork(16, 2, level=level, edge_encoder=encoder).to(dtype)
    with pytest.raises(AssertionError, match=f"a symmetry of Sequential changes the {level}-level result by"):
        assert_equivariant(net, "mlp-relu")


def test_the_oracle_finds_numbered_nodes():
    encoder = NumberedNodes(16, gmn.nn.Vocabulary())
    net = gmn.GraphMetanetwork(16, 2, node_encoder=encoder).double()
    with pytest.raises(AssertionError, match="a symmetry of Sequential changes the graph-level result by"):
        assert_equivariant(net, "mlp-relu")


@pytest.mark.parametrize("level", LEVELS)
def test_the_oracle_finds_a_metanetwork_that_ignores_weights(level):
    net = gmn.GraphMetanetwork(16, 2, level=level).double()
    nn.init.zeros_(net.edge_encoder.value.weight)
    with pytest.raises(AssertionError, match="does not see what is permuted"):
        assert_equivariant(net, "mlp-relu")
