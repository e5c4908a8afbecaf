"""The baselines: one interface, invariant to what they say, and to nothing else."""

import numpy as np
import pytest
import torch
from sklearn.ensemble import HistGradientBoostingRegressor
from torch import Tensor, nn

import graph_metanetworks as gmn
from graph_metanetworks.errors import UnsupportedNetwork
from graph_metanetworks.nn.baselines import DMC, StatNN, WeightSet
from graph_metanetworks.nn.baselines.boosting import BoostedStatNN, Trees
from graph_metanetworks.nn.baselines.statistics import WeightStatistics, summary_statistics

MODELS = {
    "statnn": lambda: StatNN(16, out=3),
    "statnn-kind": lambda: StatNN(16, out=3, by="kind"),
    "statnn-both": lambda: StatNN(16, out=3, by="both"),
    "statnn-budget": lambda: StatNN(None, out=3, by="both", budget=2000),
    "dmc": lambda: DMC((4, 6), 8, out=3),
    "deepsets": lambda: WeightSet(8, 12, out=3),
}


def network(hidden: int, depth: int = 1) -> nn.Sequential:
    layers = [layer for _ in range(depth) for layer in (nn.Linear(hidden, hidden), nn.ReLU())]
    return nn.Sequential(nn.Linear(3, hidden), nn.ReLU(), *layers, nn.Linear(hidden, 2))


def pair(model: nn.Module) -> tuple[gmn.ParameterGraph, dict[str, Tensor]]:
    return gmn.trace(model, torch.zeros(1, 3)), model.state_dict()


@pytest.fixture(scope="module")
def pairs() -> list:
    torch.manual_seed(1)
    shared = gmn.trace(network(4), torch.zeros(1, 3))
    return [(shared, network(4).state_dict()), pair(network(7)), (shared, network(4).state_dict())]


def fitted(name: str, pairs: list) -> nn.Module:
    torch.manual_seed(0)
    model = MODELS[name]()
    model.fit([gmn.collate(pairs)])
    return model


@pytest.mark.parametrize("name", MODELS)
def test_a_result_does_not_depend_on_the_rest_of_the_batch(name: str, pairs: list) -> None:
    model = fitted(name, pairs)
    together = model(gmn.collate(pairs))
    alone = torch.cat([model(gmn.collate([one])) for one in pairs])
    backwards = model(gmn.collate(pairs[::-1])).flip(0)
    assert together.shape == (3, 3)
    assert torch.allclose(together, alone, atol=1e-5) and torch.allclose(together, backwards, atol=1e-5)
    assert not torch.allclose(together[0], together[2], atol=1e-4)


@pytest.mark.parametrize("name", MODELS)
def test_gradients_reach_every_parameter(name: str, pairs: list) -> None:
    model = fitted(name, pairs)
    model(gmn.collate(pairs)).square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.parameters())


@pytest.mark.parametrize("name", MODELS)
def test_a_fresh_model_loads_a_fitted_one(name: str, pairs: list) -> None:
    model, again = fitted(name, pairs), MODELS[name]()
    again.load_state_dict(model.state_dict())
    assert torch.equal(model(gmn.collate(pairs)), again(gmn.collate(pairs)))


@pytest.mark.parametrize(("name", "invariant"), [(n, n != "dmc") for n in MODELS])
def test_which_are_invariant_to_permuted_neurons(name: str, invariant: bool, pairs: list) -> None:
    model = fitted(name, pairs)
    graph, weights = pairs[1]
    permuted = graph.symmetry.sample(torch.Generator().manual_seed(0)).apply(weights)
    first, second = model(gmn.collate([(graph, weights), (graph, permuted)]))
    assert torch.allclose(first, second, atol=1e-5) == invariant


def test_deepsets_sees_values_not_places(pairs: list) -> None:
    """Shuffling a tensor at random changes the function; DeepSets and StatNN cannot see it."""
    graph, weights = pairs[1]
    name = "2.weight"
    shuffled = {**weights, name: weights[name].flatten()[torch.randperm(49)].view(7, 7)}
    for method in ("deepsets", "statnn"):
        first, second = fitted(method, pairs)(gmn.collate([(graph, weights), (graph, shuffled)]))
        assert torch.allclose(first, second, atol=1e-5)


def test_weights_are_scaled_tensor_by_tensor(pairs: list) -> None:
    scale = fitted("dmc", pairs).scale
    values = torch.cat([scale(stack)[:12].flatten() for stack in gmn.collate(pairs[::2]).stacks])
    everything = torch.cat([weights["0.weight"].flatten() for _, weights in pairs])
    expected = torch.stack([w["0.weight"].flatten() for _, w in pairs[::2]], 1).flatten()
    assert torch.allclose(values, (expected - everything.mean()) / everything.std(correction=0), atol=1e-4)


def test_statistics_agree_with_numpy() -> None:
    values = torch.randn(23, 4, dtype=torch.float64)
    expected = [values.mean(0), values.var(0, correction=0)]
    expected += [torch.from_numpy(np.quantile(values.numpy(), q, axis=0)) for q in (0, 0.25, 0.5, 0.75, 1)]
    assert torch.allclose(summary_statistics(values), torch.stack(expected, 1))


def test_statistics_name_a_network_they_cannot_take(pairs: list) -> None:
    deeper = gmn.collate([pair(network(4, depth=2))], names=["the deeper one"])
    with pytest.raises(UnsupportedNetwork, match=r"the deeper one has the tensor 6\.weight"):
        fitted("statnn", pairs)(deeper)
    assert fitted("statnn-both", pairs)(deeper).shape == fitted("statnn-kind", pairs)(deeper).shape == (1, 3)
    normed = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 2))
    other = gmn.collate([pair(normed)])
    for name in ("statnn-kind", "statnn-both"):
        with pytest.raises(UnsupportedNetwork, match="has the kind layer norm scale"):
            fitted(name, pairs)(other)
    ignoring = WeightStatistics("kind", unknown="ignore")
    ignoring.fit([gmn.collate(pairs)])
    assert ignoring(other).shape == (1, 16)


def test_a_budget_is_kept_however_many_tensors_there_are(pairs: list) -> None:
    deeper = [pair(network(4, depth=6))]
    for budget in (3_000, 50_000, 750_000):
        for zoo in (pairs, deeper):
            model = StatNN(None, by="both", budget=budget)
            model.fit([gmn.collate(zoo)])
            assert sum(p.numel() for p in model.parameters()) == pytest.approx(budget, rel=0.04)
    with pytest.raises(ValueError, match="give hidden"):
        StatNN(None)


def test_unknown_kinds_of_statistics() -> None:
    with pytest.raises(ValueError, match="by='layer'"):
        WeightStatistics("layer")  # pyright: ignore[reportArgumentType]


def test_trees_agree_with_scikit_learn() -> None:
    generator = np.random.default_rng(0)
    features, labels = generator.normal(size=(300, 6)), generator.random(300)
    regressor = HistGradientBoostingRegressor(max_iter=30, early_stopping=False).fit(features, labels)
    trees = Trees()
    trees.copy_from(regressor)
    found = trees(torch.from_numpy(features))
    assert np.allclose(found.numpy(), regressor.predict(features), atol=1e-12)
    again = Trees()
    again.load_state_dict(trees.state_dict())
    assert torch.equal(again(torch.from_numpy(features)), found)


def test_boosting_learns_what_it_saw(pairs: list) -> None:
    torch.manual_seed(0)
    graph = pairs[0][0]
    sizes = torch.rand(60)
    scaled = [{k: (0.1 + s) * torch.randn_like(v) for k, v in pairs[0][1].items()} for s in sizes]
    batch = gmn.collate([(graph, weights) for weights in scaled])
    model = BoostedStatNN(iterations=50)
    model.fit([batch])
    model.grow(model.statistics(batch), sizes)
    assert float((model(batch)[:, 0].sigmoid() - sizes).abs().mean()) < 0.05
