"""The options of the tracer: the paper's two variants of attention, and the choice of outputs."""

from collections import Counter
from functools import cache
from itertools import product

import networkx as nx
import pytest
import torch
from torch import nn

import graph_metanetworks as gmn
from graph_metanetworks import testing
from support.graph_hash import graph_hash
from support.traced import Traced, group_graph, sample, traced

ALIKE = (  # as many keys as queries and values
    "multihead-self-attention",
    "multihead-cross-attention",
    "transformer-encoder",
    "transformer-decoder",
    "attention-packed-qkv",
    "vision-transformer",
    "hf-bert-masked-lm",
    "hf-gpt2",
)
UNLIKE = ("attention-einsum", "attention-multi-query", "hf-llama")  # values of another size, or shared keys
POSITIONS = ("decomposed-positions", "attention-skewed-positions")  # queries lead to position biases too
VARIANTS = [  # other than the default, which all other tests have
    {"attention": attention, "heads": heads}
    for attention, heads in product(("distinct", "shared"), ("node", "index"))
    if (attention, heads) != ("distinct", "node")
]


def with_variants(*names: str) -> pytest.MarkDecorator:
    """Each network with one of the variants, in turn; with the others it is slow."""
    return pytest.mark.parametrize(
        ("name", "variant"),
        [
            pytest.param(
                name,
                variant,
                marks=() if i % len(VARIANTS) == j else pytest.mark.slow,
                id="-".join((name, *variant.values())),
            )
            for i, name in enumerate(names)
            for j, variant in enumerate(VARIANTS)
        ],
    )


def with_options(
    name: str, attention: str = "distinct", heads: str = "node"
) -> tuple[Traced, gmn.ParameterGraph]:
    return traced(name), _graph(name, attention, heads)


@cache
def _graph(name: str, attention: str, heads: str) -> gmn.ParameterGraph:
    case, tracer = traced(name), gmn.Tracer(attention=attention, heads=heads)  # type: ignore
    return tracer.trace(case.model, *case.args, **case.kwargs)


def count(graph: gmn.ParameterGraph, kind: str) -> int:
    return sum(group.size for group in graph.groups if group.kind == kind)


@with_variants(*ALIKE, *UNLIKE, *POSITIONS)
def test_every_variant_keeps_every_oracle(name: str, variant: dict[str, str]) -> None:
    case, graph = with_options(name, **variant)
    testing.assert_covers(graph, case.model)
    testing.assert_round_trip(graph, case.model)
    testing.assert_automorphism(graph, case.model)
    testing.assert_function_kept(graph, case.model, *case.args, **case.kwargs)


@with_variants(*ALIKE, *UNLIKE, *POSITIONS)
def test_every_variant_is_a_dag_with_depths(name: str, variant: dict[str, str]) -> None:
    _, graph = with_options(name, **variant)
    network = group_graph(graph)
    assert nx.is_directed_acyclic_graph(network)
    assert not bool((graph.edge_index[0] == graph.edge_index[1]).any()), "a node joined to itself"
    for source, target in network.edges:
        assert graph.groups[source].depth < graph.groups[target].depth


@with_variants(*ALIKE)
def test_every_variant_is_seen_alike_after_an_automorphism(name: str, variant: dict[str, str]) -> None:
    case, graph = with_options(name, **variant)
    state = {n: v for n, v in case.model.state_dict().items() if n not in graph.ignored}
    assert graph_hash(graph, state) == graph_hash(graph, sample(graph).apply(state))


# ------------------------------------------------------------------ attention="shared"


@pytest.mark.parametrize("name", ALIKE)
def test_shared_nodes(name: str) -> None:
    """Query, key and value edges end in the same nodes, from which the output projection starts."""
    _, graph = with_options(name, attention="shared")
    ends = {
        kind: torch.cat([b.target.unique() for b in graph.blocks if b.kind == f"{kind} weight"]).unique()
        for kind in ("query", "key", "value")
    }
    starts = torch.cat([b.source.unique() for b in graph.blocks if b.kind == "output weight"]).unique()
    assert torch.equal(ends["query"], ends["key"])
    assert torch.equal(ends["query"], ends["value"])
    assert torch.equal(ends["query"], starts)
    assert not graph.notes


@pytest.mark.parametrize("name", UNLIKE)
def test_attention_that_cannot_share_nodes_says_so(name: str) -> None:
    case, graph = with_options(name, attention="shared")
    assert len(graph.notes) == 2  # one for each layer
    assert all("differ in number" in note for note in graph.notes)
    assert graph.num_nodes == case.graph.num_nodes


@pytest.mark.parametrize("name", POSITIONS)
def test_position_biases_keep_queries_apart(name: str) -> None:
    case, graph = with_options(name, attention="shared")
    assert all("position biases depend on queries" in note for note in graph.notes)
    assert graph.num_nodes == case.graph.num_nodes


def test_heads_with_position_biases_stay() -> None:
    """Even where queries, keys and values share nodes, and heads are told apart by their index."""
    _, graph = with_options("windowed-attention", attention="shared", heads="index")
    network = group_graph(graph)
    outputs = {i for i, group in enumerate(graph.groups) if group.kind == "output"}
    assert all(i in outputs or outputs & nx.descendants(network, i) for i in network)


def test_shared_nodes_cost_symmetry() -> None:
    """Dimensions of queries, keys and values are then permuted together."""
    case, graph = with_options("multihead-self-attention", attention="shared")
    sizes = sorted(v.size for v in graph.symmetry.variables)
    assert sizes == [3, 4, 12]
    assert graph.symmetry.log_order < case.graph.symmetry.log_order


# ------------------------------------------------------------------ heads="index"


@pytest.mark.parametrize("name", [*ALIKE, *UNLIKE])
def test_head_index(name: str) -> None:
    case, graph = with_options(name, heads="index")
    assert case.graph.node_head is None
    assert graph.node_head is not None
    assert graph.node_head.shape == (graph.num_nodes,)
    heads = [group.size for group in graph.groups if group.kind == "head"]
    assert set(heads) == {1}, "one node where the scores of an attention meet its values"
    assert graph.num_nodes == case.graph.num_nodes - count(case.graph, "head") + len(heads)
    for block in graph.blocks:
        if block.kind in ("query weight", "value weight"):
            assert int(graph.node_head[block.target].min()) >= 0, block.parameter
        if block.kind == "output weight":
            assert int(graph.node_head[block.target].max()) == -1


@pytest.mark.parametrize("name", ALIKE)
def test_results_of_attention_have_the_head_of_their_values(name: str) -> None:
    _, graph = with_options(name, heads="index")
    assert graph.node_head is not None
    outputs = [block for block in graph.blocks if block.kind == "output weight"]
    assert outputs
    assert all(int(graph.node_head[block.source].min()) >= 0 for block in outputs)


def test_the_head_index_counts_from_zero() -> None:
    _, graph = with_options("multihead-self-attention", heads="index")
    assert graph.node_head is not None
    value = next(b for b in graph.blocks if b.kind == "value weight")
    assert Counter(graph.node_head[value.target.flatten()].tolist()) == {0: 4, 1: 4, 2: 4}


@pytest.mark.parametrize("name", ALIKE)
def test_indexed_heads_are_not_permuted(name: str) -> None:
    _, graph = with_options(name, heads="index")
    assert graph.node_head is not None
    nodes = sample(graph).nodes
    assert torch.equal(graph.node_head[nodes], graph.node_head)


def test_the_nodes_of_the_paper() -> None:
    """A node for each dimension of the input, of the vectors in attention, and of the output; and biases."""
    _, graph = with_options("multihead-self-attention", attention="shared", heads="index")
    neurons = 5 + 12 + 12 + 12 + 4
    biases = sum(group.size for group in graph.groups if group.kind.endswith("bias"))
    assert graph.num_nodes == neurons + biases
    attention = [b for b in graph.blocks if b.parameter and b.parameter.startswith("attend.")]
    assert {b.kind for b in attention if b.kind.endswith("weight")} == {
        "query weight",
        "key weight",
        "value weight",
        "output weight",
    }


# ------------------------------------------------------------------ outputs


class TwoOutputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(5, 8), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        hidden = self.first(x).relu()
        return {"hidden": hidden, "logits": self.last(hidden)}


def test_what_counts_as_output_is_not_permuted() -> None:
    model, x = TwoOutputs(), torch.randn(4, 5)
    everything = gmn.trace(model, x)
    logits = gmn.Tracer(outputs=lambda result: result["logits"]).trace(model, x)
    assert not everything.symmetry.variables
    assert [v.size for v in logits.symmetry.variables] == [8]
    assert [g.size for g in logits.groups if g.kind == "output"] == [3]
    testing.assert_automorphism(logits, model)


def test_parameters_behind_other_outputs_are_not_reached() -> None:
    tracer = gmn.Tracer(outputs=lambda result: result["hidden"])
    with pytest.raises(gmn.UnusedParameters, match=r"last\.weight"):
        tracer.trace(TwoOutputs(), torch.randn(4, 5))


def test_logits_free_the_streams_of_an_encoder_decoder() -> None:
    """The encoder's last states are outputs of BART and pin its residual stream, unless told otherwise."""
    case = traced("hf-bart")
    graph = gmn.Tracer(outputs=lambda result: result.logits).trace(case.model, *case.args, **case.kwargs)
    assert len(graph.symmetry.variables) == len(case.graph.symmetry.variables) + 1


@pytest.mark.parametrize(
    "name",
    ["hf-gpt2", "hf-mamba", *(pytest.param(name, marks=pytest.mark.slow) for name in ("hf-llama", "hf-t5"))],
)
def test_a_cache_is_no_output(name: str) -> None:
    """Keys and values that are kept for the next call are state, and may be permuted."""
    case = traced(name)
    graph = testing.assert_all(case.model, *case.args, **case.kwargs, use_cache=True)
    assert graph.symmetry.log_order == pytest.approx(case.graph.symmetry.log_order, rel=1e-12)


def test_a_cache_is_an_output_if_it_is_chosen() -> None:
    case = traced("hf-gpt2")
    tracer = gmn.Tracer(outputs=lambda result: (result.logits, result.past_key_values))
    graph = tracer.trace(case.model, *case.args, **case.kwargs, use_cache=True)
    assert graph.symmetry.log_order < case.graph.symmetry.log_order


def test_options_are_keywords_and_tracers_compare() -> None:
    assert gmn.Tracer() == gmn.Tracer(unknown="raise")
    assert gmn.Tracer(heads="index") != gmn.Tracer()
    with pytest.raises(TypeError):
        gmn.Tracer("pin")  # type: ignore[misc]
    with pytest.raises(AttributeError):
        gmn.Tracer().unknown = "pin"  # type: ignore[misc]
