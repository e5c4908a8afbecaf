"""Integer and boolean weights lie on no edge, are told apart from unused ones, and are pinned."""

import warnings

import pytest
import torch

import graph_metanetworks as gmn
from graph_metanetworks import testing
from graph_metanetworks.errors import UnseenWeights
from graph_metanetworks.graph.description import describe
from graph_metanetworks.testing.function import difference, in_double, outputs
from support.adversarial.discrete import DISCRETE, FREE, Discrete, MaskedNeurons, Quantised, Selected

X = torch.randn(4, 5, generator=torch.Generator().manual_seed(3))

every_network = pytest.mark.parametrize("network", DISCRETE.values(), ids=DISCRETE)


def made(network: type[Discrete], *, uniform: bool = False) -> Discrete:
    torch.manual_seed(0)
    model = network().eval()
    if not uniform:
        high = {torch.bool: 2, torch.int8: 100, torch.int64: 6}[network.dtype]
        model.weight.copy_(torch.randint(0, high, network.shape))  # pyright: ignore[reportCallIssue]
    return model


def quietly(model: Discrete) -> gmn.ParameterGraph:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnseenWeights)
        return gmn.trace(model, X)


@every_network
@pytest.mark.filterwarnings("ignore::graph_metanetworks.errors.UnseenWeights")
def test_sound(network: type[Discrete]) -> None:
    graph = testing.assert_all(made(network), X)
    assert [axis.size for axis in graph.symmetry.variables] == [FREE]


@every_network
def test_values_of_the_traced_network_do_not_matter(network: type[Discrete]) -> None:
    """A graph serves every network of an architecture, also when the traced one has only zeros."""
    graph, other = quietly(made(network, uniform=True)), made(network)
    assert [axis.size for axis in graph.symmetry.variables] == [FREE]
    testing.assert_function_kept(graph, other, X)
    double, args, kwargs = in_double(other, (X,), {})
    weights = {name: value.clone() for name, value in double.state_dict().items()}
    rescaled = graph.scaling.sample(torch.Generator().manual_seed(0)).apply(weights)
    change = difference(outputs(double, weights, args, kwargs), outputs(double, rescaled, args, kwargs))
    assert graph.scaling.num_scales >= FREE
    assert change < 1e-9


@every_network
def test_what_is_said(network: type[Discrete]) -> None:
    graph = quietly(made(network))
    assert graph.unseen == {"weight"} and graph.ignored == {"weight", "calls"}
    assert describe(graph)["unseen"] == ["weight"]
    for text in (" ".join(graph.summary().split()), graph._repr_html_()):
        assert (
            "not floating-point parameters or buffers, although the output may depend on them: weight."
            in text
        )
        assert "because the output does not depend on them: calls." in text


@pytest.mark.parametrize("network", [Quantised, MaskedNeurons])
def test_weights_that_a_metanetwork_does_not_see(network: type[Discrete]) -> None:
    with pytest.warns(UnseenWeights, match="depends on weight .*persistent=False") as caught:
        gmn.trace(made(network), X)
    assert caught[0].filename == __file__


def test_an_index_is_no_weight() -> None:
    assert gmn.trace(made(Selected), X).unseen == {"weight"}  # a warning would be an error


def test_a_constant_of_the_architecture_is_not_part_of_the_state() -> None:
    model = made(MaskedNeurons)
    model.register_buffer("weight", model.weight, persistent=False)
    assert gmn.trace(model, X).unseen == frozenset()


def test_integers_go_along_unchanged() -> None:
    model = made(Quantised)
    graph, state = quietly(model), model.state_dict()
    permuted = graph.symmetry.sample(torch.Generator().manual_seed(0)).apply(state)
    assert torch.equal(permuted["weight"], state["weight"])
    assert torch.equal(graph.state_dict(graph.edge_values(state), state)["weight"], state["weight"])
