"""Baselines for one architecture: what they take, and exactly the symmetry that they have."""

import pytest
import torch
from torch import Tensor, nn

import graph_metanetworks as gmn
from graph_metanetworks.nn.baselines import FlatMlp, Inr2Vec, NeuronTransformer
from graph_metanetworks.nn.baselines.one_architecture import OneArchitecture
from graph_metanetworks.symmetry.automorphism import Automorphism

MODELS = {
    "mlp": lambda: FlatMlp(12, out=3),
    "transformer": lambda: NeuronTransformer(8, out=3),
    "inr2vec": lambda: Inr2Vec(8, out=3),
}
every = pytest.mark.parametrize("name", MODELS)


def network(hidden: int = 5, outputs: int = 2) -> nn.Sequential:
    layers = nn.Linear(2, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, outputs)
    return nn.Sequential(*layers).double()


@pytest.fixture(scope="module")
def graph() -> gmn.ParameterGraph:
    return gmn.trace(network(), torch.zeros(1, 2, dtype=torch.float64))


@pytest.fixture(scope="module")
def batch(graph: gmn.ParameterGraph) -> gmn.Batch:
    torch.manual_seed(0)
    return gmn.collate([(graph, network().state_dict()) for _ in range(6)])


def fitted(name: str, batch: gmn.Batch) -> OneArchitecture:
    torch.manual_seed(1)
    model = MODELS[name]().double()
    model.fit([batch])
    return model.eval()


def moved(model: nn.Module, batch: gmn.Batch, **dims: int) -> bool:
    """Whether results change if these tensors, by name, are reversed along a dimension."""
    (stack,) = batch.stacks
    weights = dict(stack.weights)
    for parameter in stack.graph.parameters:
        dim = dims.get(parameter.name.replace(".", "_"))
        if dim is not None:
            value = weights[parameter.name].view(*parameter.shape, len(batch), 1)
            weights[parameter.name] = value.flip(dim).reshape(-1, len(batch), 1)
    other = gmn.Batch((type(stack)(stack.graph, stack.members, weights),), batch.names)
    return not torch.allclose(model(batch), model(other), atol=1e-9)


def test_the_mlp_has_no_symmetry(graph: gmn.ParameterGraph, batch: gmn.Batch) -> None:
    model = fitted("mlp", batch)
    for element in graph.symmetry.generators():
        assert not torch.allclose(model(permuted(batch, element)), model(batch), atol=1e-4)
    assert all(moved(model, batch, **{name: 0}) for name in ("0_weight", "2_bias", "4_weight"))


def permuted(batch: gmn.Batch, element: Automorphism) -> gmn.Batch:
    graph, (stack,) = batch.graphs[0], batch.stacks
    rows = [
        {p.name: stack.weights[p.name][:, n, 0].view(p.shape) for p in graph.parameters} for n in range(6)
    ]
    return gmn.collate([(graph, element.apply(row)) for row in rows])


def test_the_transformer_sees_sets_of_hidden_rows(batch: gmn.Batch) -> None:
    model = fitted("transformer", batch)
    assert not moved(model, batch, **{"0_weight": 0, "0_bias": 0})
    assert not moved(model, batch, **{"2_weight": 0, "2_bias": 0})
    assert moved(model, batch, **{"2_weight": 0}), "the bias belongs to its row"
    assert moved(model, batch, **{"2_weight": 1})
    assert moved(model, batch, **{"4_weight": 0, "4_bias": 0}), "outputs have places"


def test_inr2vec_sees_a_set_of_rows(batch: gmn.Batch) -> None:
    model = fitted("inr2vec", batch)
    assert not moved(model, batch, **{"2_weight": 0})
    assert not moved(model, batch, **{"0_weight": 1})
    assert moved(model, batch, **{"2_weight": 1})
    assert moved(model, batch, **{"0_bias": 0})


@pytest.mark.parametrize("name", ["transformer", "inr2vec"])
def test_permuted_neurons_are_seen(name: str, graph: gmn.ParameterGraph, batch: gmn.Batch) -> None:
    model, element = fitted(name, batch), graph.symmetry.sample(torch.Generator().manual_seed(0))
    assert not torch.allclose(model(permuted(batch, element)), model(batch), atol=1e-4)


@every
def test_a_fresh_model_loads_a_fitted_one(name: str, batch: gmn.Batch) -> None:
    model, again = fitted(name, batch), MODELS[name]().double()
    again.load_state_dict(model.state_dict())
    assert torch.equal(again.eval()(batch), model(batch))
    assert model.embed(batch).shape[0] == len(batch)
    assert torch.allclose(model.head.second(model.embed(batch)), model(batch))


@every
def test_a_result_does_not_depend_on_the_rest_of_the_batch(name: str, batch: gmn.Batch) -> None:
    """Also if the networks are in several stacks, in any order."""
    torch.manual_seed(2)
    models = [network() for _ in range(3)]
    graphs = [gmn.trace(model, torch.zeros(1, 2, dtype=torch.float64)) for model in models[:2]]
    pairs = [(graphs[n % 2], model.state_dict()) for n, model in enumerate(models)]
    model = fitted(name, batch)
    together = model(gmn.collate(pairs))
    alone = torch.cat([model(gmn.collate([pair])) for pair in pairs])
    assert torch.allclose(together, alone) and not torch.allclose(together[0], together[1], atol=1e-4)


@every
def test_gradients_reach_every_parameter(name: str, batch: gmn.Batch) -> None:
    model = fitted(name, batch).train()
    model(batch).square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.parameters())


@every
def test_other_networks_are_refused(name: str, batch: gmn.Batch) -> None:
    model, wide = fitted(name, batch), network(hidden=7)
    other = (gmn.trace(wide, torch.zeros(1, 2, dtype=torch.float64)), wide.state_dict())
    with pytest.raises(gmn.UnsupportedNetwork, match=rf"{name} takes networks of one architecture.*\(7, 2\)"):
        model(gmn.collate([other]))
    with pytest.raises(gmn.UnsupportedNetwork, match="The method gmn takes any network"):
        model.fit([batch, gmn.collate([other])])


def test_what_are_no_chains_of_equal_width() -> None:
    uneven = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
    normed = nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3), nn.Linear(3, 1))
    first, second = (
        gmn.collate([(gmn.trace(model, torch.zeros(1, 2)), model.state_dict())]) for model in (uneven, normed)
    )
    with pytest.raises(gmn.UnsupportedNetwork, match="hidden layers of equal widths"):
        Inr2Vec(8).fit([first])
    with pytest.raises(gmn.UnsupportedNetwork, match="transformer takes plain chains"):
        NeuronTransformer(8).fit([second])


def test_the_mlp_on_edges(graph: gmn.ParameterGraph, batch: gmn.Batch) -> None:
    """Each output belongs to one weight: the state dict has them in the order of the tensors."""
    torch.manual_seed(0)
    model = FlatMlp(12, out=1, level="edge").double()
    model.fit([batch])
    results = model.head(model.first(_vectors(model, batch)).relu())
    for row, found in zip(results, batch.state_dicts(model(batch)), strict=True):
        assert torch.equal(torch.cat([found[p.name].flatten() for p in graph.parameters]), row)
    assert model.embed(batch).shape == (6, 12)


def _vectors(model: FlatMlp, batch: gmn.Batch) -> Tensor:
    (stack,) = model.standardized(batch).stacks
    return torch.cat([x[..., 0] for x in stack.weights.values()]).t()
