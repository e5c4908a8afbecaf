"""Networks without weights: the meta device and fake tensors give the same graph as real weights."""

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_map_only

import graph_metanetworks as gmn
from support.fingerprint import left_as_found
from support.traced import BY_NAME, some_architectures, traced

READS_VALUES = {"hf-mixtral", "hf-gpt-oss"}  # which expert takes which token is a question of values

# one of every kind of construction
FAKE = (
    "mlp-relu",
    "mlp-batch-norm",
    "mlp-many-activations",
    "cnn-2d-batch-norm",
    "cnn-2d-group-norm",
    "densenet",
    "attention-packed-qkv",
    "attention-einsum",
    "attention-rotary",
    "multihead-self-attention-masked",
    "lstm",
    "gru-bidirectional",
    "lstm-learned-initial-state",
    "grid-hash",
    "grid-triplane",
    "fourier-features",
    "language-model-tied-embedding",
    "tied-autoencoder",
    "weight-norm",
    "lora-merged",
    "spectral-norm",
    "bilinear",
    "perceiver",
    "hf-llama",
    "hf-gpt2",
    "hf-bert-masked-lm",
    "hf-t5",
    "hf-mamba",
)


# the symmetry is the same, but not every node: an index table without values hides which places share an
# entry, a state of zeros is not followed as data, and the scan of Mamba is written in two ways
OTHER_NODES = {"hf-swin", "windowed-attention", "lstm-learned-initial-state", "hf-mamba"}

# these read tensors that are not in the state dict, so a graph without values cannot run itself
WITHOUT_CONSTANTS = {
    "attention-rotary",
    "grid-triplane",
    "grid-hash",
    "grid-hash-declared",
    "octree-corners",
    "octree-cells",
    "hf-gpt-neox",
    "hf-llama",
    "hf-llama-eager-attention",
    "hf-qwen3",
    "hf-gemma",
    "hf-mixtral-batched-experts",
    "hf-bert-masked-lm",
    "hf-bert-masked-lm-eager-attention",
    "hf-bert-sequence-classification",
    "hf-roberta-masked-lm",
    "hf-conformer",
    "hf-swin",
    "hf-clip",
    "multihead-self-attention-masked",
}


def same_structure(first: gmn.ParameterGraph, second: gmn.ParameterGraph, name: str = "") -> None:
    """As equal as graphs can be whose unread rows and constants have no values."""
    assert len(first.symmetry.variables) == len(second.symmetry.variables)
    assert first.symmetry.log_order == pytest.approx(second.symmetry.log_order)
    assert first.parameters == second.parameters
    assert first.num_parameters == second.num_parameters
    if name not in OTHER_NODES:
        assert (first.num_nodes, first.num_edges) == (second.num_nodes, second.num_edges)
        assert first.edge_kinds == second.edge_kinds


@some_architectures(*FAKE[::2])
def test_meta_device(name: str) -> None:
    """Frozen and in training mode at that, which should make no difference either."""
    if name in READS_VALUES:
        pytest.skip("it says so, as the last test shows")
    case = traced(name)
    with torch.device("meta"):
        model = BY_NAME[name].build().train().requires_grad_(False)
    with left_as_found(model):
        graph = case.tracer.trace(model, *case.args, **case.kwargs)
    same_structure(case.graph, graph, name)
    assert all(end.device.type == "cpu" for b in graph.blocks for end in (b.source, b.target))
    gmn.testing.assert_round_trip(graph, case.model)
    gmn.testing.assert_automorphism(graph, case.model, samples=1)
    if name not in WITHOUT_CONSTANTS:
        gmn.testing.assert_runs(graph, case.model, *case.args, tracer=case.tracer, **case.kwargs)
        return
    with pytest.raises(gmn.ReplayError, match=r"no values.*meta device.*real weights"):
        graph.run(case.model.state_dict(), *case.args, **case.kwargs)


@pytest.mark.slow  # the next test has fake weights, too
@pytest.mark.parametrize("name", FAKE)
def test_fake_weights(name: str) -> None:
    case = traced(name)
    with FakeTensorMode(allow_non_fake_inputs=True):
        model = BY_NAME[name].build().eval()
    with left_as_found(model):
        graph = case.tracer.trace(model, *case.args, **case.kwargs)
    same_structure(case.graph, graph, name)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if i % 2 else ()) for i, name in enumerate(FAKE)]
)
def test_fake_inputs(name: str) -> None:
    """Everything fake, and the mode active."""
    case = traced(name)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        model = BY_NAME[name].build().eval()
        args, kwargs = tree_map_only(Tensor, mode.from_tensor, (case.args, case.kwargs))
        graph = case.tracer.trace(model, *args, **kwargs)
    same_structure(case.graph, graph, name)


META_INPUTS = "mlp-relu cnn-2d-batch-norm attention-packed-qkv lstm gru-bidirectional hf-gpt2 hf-llama hf-vit"


@pytest.mark.parametrize("name", META_INPUTS.split())
def test_meta_inputs(name: str) -> None:
    case = traced(name)
    with torch.device("meta"):
        model = BY_NAME[name].build().eval()
        args, kwargs = tree_map_only(Tensor, lambda t: t.to("meta"), (case.args, case.kwargs))
        graph = case.tracer.trace(model, *args, **kwargs)
    same_structure(case.graph, graph, name)


def test_tracing_a_real_network_where_meta_is_the_default() -> None:
    case = traced("cnn-2d-batch-norm")
    with torch.device("meta"):
        graph = case.tracer.trace(case.model, *case.args, **case.kwargs)
        values = graph.edge_values(case.model.state_dict())
        assert values.device.type == "cpu"
        nodes = graph.symmetry.sample(torch.Generator().manual_seed(0)).nodes
        assert nodes.device.type == graph.edge_index.device.type == "cpu"
        assert graph.node_kind.device.type == graph.edge_position.device.type == "cpu"
    same_structure(case.graph, graph)


def test_some_weights_on_the_meta_device() -> None:
    model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 3))
    model[2].to("meta")
    graph = gmn.trace(model, torch.randn(4, 5))
    assert [v.size for v in graph.symmetry.variables] == [8, 6]


@pytest.mark.parametrize("name", sorted(READS_VALUES))
def test_a_network_that_reads_values_says_so(name: str) -> None:
    architecture = BY_NAME[name]
    args, kwargs = architecture.example()
    with torch.device("meta"):
        model = architecture.build().eval()
    with left_as_found(model), pytest.raises(gmn.TraceError, match="Trace it with real weights"):
        gmn.trace(model, *args, **kwargs)
