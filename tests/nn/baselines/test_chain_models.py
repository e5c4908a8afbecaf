"""Neural functionals on chains: which permutations of weights they see, and which not."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn

import graph_metanetworks as gmn
from graph_metanetworks.errors import TaskError, UnsupportedNetwork
from graph_metanetworks.nn.baselines import Dws, NfnHnp, NfnNp, NfnPt, Nft
from graph_metanetworks.nn.baselines.chain_model import ChainModel

MODELS: dict[str, type[ChainModel]] = {
    "nfn-np": NfnNp,
    "nfn-hnp": NfnHnp,
    "nfn-pt": NfnPt,
    "nft": Nft,
    "dws": Dws,
}
SIZES = (3, 5, 4, 2)
Weights = dict[str, Tensor]


def mlp(sizes: Sequence[int] = SIZES) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), nn.Tanh()]
    return nn.Sequential(*layers[:-1])


def cnn(outputs: int = 3) -> nn.Sequential:
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(5, outputs)]
    return nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Conv2d(4, 5, 3), nn.ReLU(), *head)


def batch_of(*models: nn.Module) -> gmn.Batch:
    shape = (1, 2, 8, 8) if any(isinstance(part, nn.Conv2d) for part in models[0]) else (1, 3)
    graph = gmn.trace(models[0], torch.zeros(shape))
    return gmn.collate([(graph, model.state_dict()) for model in models])


def fitted(name: str, batch: gmn.Batch, **options) -> ChainModel:
    torch.manual_seed(0)
    model = MODELS[name](**{"hidden": 8, "layers": 2, **options})
    model.fit([batch])
    return model.double().eval()


# ------------------------------------------------------------------ permutations of an MLP's weights


def neurons(group: int) -> Callable[[Weights], Weights]:
    """Permute the neurons of a group, in the rows of the layer before and the columns of the next."""
    order = torch.arange(SIZES[group]).roll(1)

    def permute(weights: Weights) -> Weights:
        found = dict(weights)
        if group > 0:
            for name in (f"{2 * group - 2}.weight", f"{2 * group - 2}.bias"):
                found[name] = found[name][order]
        if group < len(SIZES) - 1:
            found[f"{2 * group}.weight"] = found[f"{2 * group}.weight"][:, order]
        return found

    return permute


def rows_only(weights: Weights) -> Weights:
    return weights | {"2.weight": weights["2.weight"].roll(1, 0)}


def columns_only(weights: Weights) -> Weights:
    return weights | {"2.weight": weights["2.weight"].roll(1, 1)}


def within_a_tensor(weights: Weights) -> Weights:
    shuffled = weights["2.weight"].flatten()[torch.randperm(20, generator=torch.manual_seed(1))]
    return weights | {"2.weight": shuffled.view(4, 5)}


def across_layers(weights: Weights) -> Weights:
    """Exchange a weight of the first layer with one of the second."""
    found = {name: value.clone() for name, value in weights.items()}
    found["0.weight"][0, 0], found["2.weight"][0, 0] = weights["2.weight"][0, 0], weights["0.weight"][0, 0]
    return found


PERMUTATIONS = {
    "hidden 1": (neurons(1), set(MODELS)),
    "hidden 2": (neurons(2), set(MODELS)),
    "inputs": (neurons(0), {"nfn-np", "nfn-pt"}),
    "outputs": (neurons(3), {"nfn-np", "nfn-pt"}),
    "rows only": (rows_only, {"nfn-pt"}),
    "columns only": (columns_only, {"nfn-pt"}),
    "within a tensor": (within_a_tensor, {"nfn-pt"}),
    "across layers": (across_layers, set()),
}


@pytest.fixture(scope="module")
def weights() -> Weights:
    torch.manual_seed(1)
    return {name: torch.randn_like(value, dtype=torch.float64) for name, value in mlp().state_dict().items()}


@pytest.mark.parametrize("level", ["graph", "edge"])
@pytest.mark.parametrize("permutation", PERMUTATIONS)
@pytest.mark.parametrize("name", MODELS)
def test_the_symmetry_is_as_claimed_and_no_more(
    name: str, permutation: str, level: str, weights: Weights
) -> None:
    permute, commuting = PERMUTATIONS[permutation]
    graph = gmn.trace(mlp(), torch.zeros(1, 3))
    batch = gmn.collate([(graph, weights), (graph, permute(weights))])
    model = fitted(name, batch, level=level, hidden=16)
    results = model(batch).detach()
    if level == "graph":
        first, second = results
    else:
        before, after = batch.state_dicts(results)
        first, second = (torch.cat([x.flatten() for x in y.values()]) for y in (permute(before), after))
    error = float((first - second).abs().max() / results.abs().max())
    assert error < 1e-9 if name in commuting else error > 1e-6


@pytest.mark.parametrize("name", MODELS)
def test_cnns_and_the_symmetries_of_their_graph(name: str) -> None:
    batch = batch_of(cnn(), cnn())
    graph, weights = batch.graphs[0], batch.state_dicts(torch.randn(batch.num_edges, dtype=torch.float64))[0]
    permuted = graph.symmetry.sample(torch.Generator().manual_seed(0)).apply(weights)
    both = gmn.collate([(graph, weights), (graph, permuted)])
    first, second = fitted(name, both)(both)
    assert torch.allclose(first, second, atol=1e-9)
    editor = fitted(name, both, level="edge")
    edited = gmn.collate([(graph, one) for one in both.state_dicts(editor(both))])
    assert torch.allclose(*fitted(name, both)(edited), atol=1e-9)


# ------------------------------------------------------------------ one interface


@pytest.mark.parametrize("name", MODELS)
def test_a_result_does_not_depend_on_the_rest_of_the_batch(name: str) -> None:
    """Hidden layers may have any size, so networks of several sizes share a batch."""
    models = [mlp(), mlp((3, 7, 6, 2)), mlp()]
    graphs = [gmn.trace(model, torch.zeros(1, 3)) for model in models[:2]]
    pairs = [(graphs[k % 2], model.double().state_dict()) for k, model in enumerate(models)]
    batch = gmn.collate(pairs)
    for level in ("graph", "edge"):
        model = fitted(name, batch, level=level)
        alone = torch.cat([model(gmn.collate([pair])) for pair in pairs])
        assert torch.allclose(model(batch), alone, atol=1e-9)


@pytest.mark.parametrize("name", MODELS)
def test_a_fresh_model_loads_a_fitted_one(name: str) -> None:
    batch = batch_of(mlp(), mlp())
    for options in ({"out": 3}, {"level": "edge"}):
        model = fitted(name, batch, **options, hidden=None, budget=3000).float()
        again = MODELS[name](**options, layers=2, budget=3000)
        again.load_state_dict(model.state_dict())
        assert torch.equal(model(batch), again.eval()(batch))


@pytest.mark.parametrize("name", MODELS)
def test_gradients_reach_every_parameter(name: str) -> None:
    batch = batch_of(cnn(), cnn())
    for options in ({"out": 3}, {"level": "edge"}):
        model = fitted(name, batch, **options).float().train()
        model(batch).square().sum().backward()
        assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.parameters())


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("budget", [20_000, 200_000])
def test_the_width_fits_the_budget(name: str, budget: int) -> None:
    model = fitted(name, batch_of(mlp(), mlp()), hidden=None, budget=budget)
    assert sum(p.numel() for p in model.parameters()) == pytest.approx(budget, rel=0.15)


def test_weights_are_scaled_tensor_by_tensor() -> None:
    """Networks of another scale give the same results after a fit to them."""
    first, second = ([mlp() for _ in range(4)] for _ in range(2))
    for model, copy in zip(first, second, strict=True):
        copy.load_state_dict({key: 3 * value + 1 for key, value in model.state_dict().items()})
    results = [fitted("nfn-hnp", batch)(batch) for batch in (batch_of(*first), batch_of(*second))]
    assert torch.allclose(*results, atol=1e-5)


def test_a_batch_of_one_network_can_be_trained_on() -> None:
    batch = batch_of(mlp())
    model = fitted("nfn-np", batch).float()
    assert torch.equal(model(batch), model.train()(batch))


def test_embeddings_are_the_input_of_the_last_layer() -> None:
    batch = batch_of(mlp(), mlp())
    model = fitted("dws", batch, out=3).float()
    assert torch.allclose(model.head.second(model.embed(batch)), model(batch))
    with pytest.raises(TaskError, match="dws at edge level"):
        fitted("dws", batch, level="edge").embed(batch)


# ------------------------------------------------------------------ what they cannot take


def test_networks_of_another_form_are_named() -> None:
    model = fitted("nfn-np", batch_of(mlp(), mlp())).float()
    for other in (mlp((3, 5, 2)), mlp((3, 5, 4, 1)), cnn()):
        with pytest.raises(UnsupportedNetwork, match=r"nfn-np takes networks of one form.*network 0"):
            model(batch_of(other))
    normed = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 2))
    with pytest.raises(UnsupportedNetwork, match=r"nft takes plain chains .* a layer norm scale"):
        fitted("nft", batch_of(normed))
    with pytest.raises(RuntimeError, match=r"dws makes its layers for a zoo: call fit"):
        Dws()(batch_of(mlp()))
