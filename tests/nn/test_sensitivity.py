"""Networks that differ give results that differ."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import graph_metanetworks as gmn
from support.permuted import weights
from support.traced import traced
from support.written import Attention, Mlp, Sets, graph_of

BLOCKS = {
    **{aggregation: {"aggregation": aggregation} for aggregation in ("mean", "sum", "max", "fan")},
    "matrix-product": {"blocks": "matrix-product"},
    "bundles": {"blocks": "bundles"},
}


@pytest.fixture(params=BLOCKS.values(), ids=BLOCKS)
def net(request) -> gmn.GraphMetanetwork:
    return gmn.GraphMetanetwork(32, 4, 4, **request.param).double()


@torch.no_grad()
def difference(net: gmn.GraphMetanetwork, *networks: tuple[gmn.ParameterGraph, dict[str, Tensor]]) -> float:
    """Of two networks, relative to the result."""
    first, second = net(gmn.collate(networks).to(torch.float64))
    return float((first - second).abs().max() / first.abs().max())


def swapped(model: nn.Module, first: str, second: str) -> dict[str, Tensor]:
    names = {first: second, second: first}
    state = model.state_dict()
    return {
        name: state[".".join([names.get(module, module), rest])]
        for name in state
        for module, rest in [name.split(".")]
    }


def test_the_number_of_heads(net):
    one, four = Attention(heads=1), Attention(heads=4)
    assert difference(net, (graph_of(one), one.state_dict()), (graph_of(four), four.state_dict())) > 1e-5


def group_norm(groups: int) -> tuple[gmn.ParameterGraph, dict[str, Tensor]]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 8), nn.GroupNorm(groups, 8), nn.ReLU(), nn.Linear(8, 2))
    return gmn.trace(model, torch.zeros(4, 3)), model.state_dict()


def test_the_number_of_groups_of_a_norm(net):
    assert difference(net, group_norm(2), group_norm(4)) > 1e-6


@torch.no_grad()
def test_the_channels_that_a_norm_joins():
    """At node level. Of channels with equal weights, those of one group are alike, those of two are not."""
    graph, state = group_norm(2)
    state = {name: torch.ones_like(value) for name, value in state.items()}
    state["0.bias"] = torch.tensor([0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0, -2.0])  # the last of each group
    net = gmn.GraphMetanetwork(16, 3, 4, level="node").double()
    nodes = net(gmn.collate([(graph, state)]).to(torch.float64))
    one, other = nodes[3:6], nodes[7:10]  # after the inputs
    assert float((one - one[:1]).abs().max()) < 1e-12
    assert float((one - other).abs().max()) > 1e-7


def test_queries_and_keys_swapped(net):
    model = Attention()
    graph = graph_of(model)
    assert difference(net, (graph, model.state_dict()), (graph, swapped(model, "q", "k"))) > 1e-6


def test_the_two_matrices_of_a_set_layer_swapped(net):
    model = Sets()
    graph = graph_of(model)
    assert difference(net, (graph, model.state_dict()), (graph, swapped(model, "own", "others"))) > 1e-6


@pytest.mark.parametrize("change", [lambda w: w.mT, lambda w: w.flip(-1), lambda w: w.flip(-1, -2)])
def test_a_kernel_turned(net, change):
    model = nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Conv2d(4, 3, 1)).double()
    graph = gmn.trace(model, torch.zeros(1, 2, 5, 5).double())
    state = model.state_dict()
    turned = state | {"0.weight": change(state["0.weight"])}
    assert difference(net, (graph, state), (graph, turned)) > 1e-7


@pytest.mark.parametrize(("name", "dim"), [("a", 1), ("c", 0), ("d", 0)], ids=["inputs", "outputs", "bias"])
def test_inputs_and_outputs_permuted(net, name, dim):
    model = Mlp()
    state = model.state_dict()
    if name == "c":
        state |= {"d": state["d"].flip(0)}  # as if the outputs had changed their places
    permuted = state | {name: state[name].flip(dim)}
    assert difference(net, (graph_of(model), model.state_dict()), (graph_of(model), permuted)) > 1e-7


@pytest.mark.parametrize("name", "abcd")
@pytest.mark.parametrize("change", [torch.neg, lambda w: 1.01 * w, lambda w: w + 0.01], ids="-*+")
def test_one_tensor_changed(net, name, change):
    model, state = Mlp(), Mlp().state_dict()
    graph = graph_of(model)
    assert difference(net, (graph, state), (graph, state | {name: change(state[name])})) > 1e-6


def test_activation_functions(net):
    state = Mlp().state_dict()
    functions = [torch.relu, torch.tanh, torch.sin, nn.functional.gelu, lambda x: x]
    graphs = [graph_of(Mlp(function=function)) for function in functions]
    for other in graphs[1:]:
        assert difference(net, (graphs[0], state), (other, state)) > 1e-5


SMALL = ("mlp-relu", "cnn-2d-batch-norm", "lstm", "deep-sets", "resnet-basic-identity")


@pytest.mark.parametrize("blocks", ["message-passing", "matrix-product", "bundles"])
@given(name=st.sampled_from(SMALL), seed=st.integers(0, 2**31))
@settings(max_examples=30)
def test_no_other_permutation_is_a_symmetry(blocks, name, seed):
    """The elements of one tensor in another order: hidden neurons cannot follow."""
    generator = torch.Generator().manual_seed(seed)
    graph, state = traced(name).graph, weights(name)
    choices = [p for p in graph.parameters if p.numel > 1]
    chosen = choices[int(torch.randint(len(choices), (), generator=generator))].name
    value = state[chosen].flatten()
    first, second = torch.randperm(len(value), generator=generator)[:2]
    exchanged = value.clone()
    exchanged[first], exchanged[second] = value[second], value[first]
    torch.manual_seed(0)
    net = gmn.GraphMetanetwork(16, 3, 4, blocks=blocks).double()
    change = difference(net, (graph, state), (graph, state | {chosen: exchanged.view_as(state[chosen])}))
    assert change > 1e-12
