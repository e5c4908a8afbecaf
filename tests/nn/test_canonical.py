"""Metanetworks on canonical batches: invariant to rescaling, equivariant to permutations."""

import pytest
import torch
from torch import Tensor, nn

import graph_metanetworks as gmn
from graph_metanetworks.nn import Canonical
from support.tiny import mlp
from support.traced import sample, traced

# scales; signs; phases; scales and signs of attention and norms; tied weights; batch norms
NAMES = (
    "mlp-relu",
    "mlp-tanh",
    "siren",
    "multiplicative-filter-network",
    "vision-transformer",
    "language-model-tied-embedding",
    "resnet-basic-identity",
)


def copies(name: str, count: int = 3) -> gmn.Batch:
    """A network and rescaled copies of it, in float64."""
    graph, model = traced(name).graph, traced(name).model
    weights = {n: x.double() if x.is_floating_point() else x for n, x in model.state_dict().items()}
    samples = [graph.scaling.sample(torch.Generator().manual_seed(seed)) for seed in range(count - 1)]
    return gmn.collate([(graph, weights), *((graph, s.apply(weights)) for s in samples)])


def metanetwork(**options) -> gmn.GraphMetanetwork:
    torch.manual_seed(0)
    return gmn.GraphMetanetwork(16, 2, 3, **options).double()


@torch.no_grad()
def spread(results: Tensor) -> float:
    return float((results - results[:1]).abs().max())


@pytest.mark.parametrize("blocks", ["message-passing", "matrix-product", "bundles"])
@pytest.mark.parametrize("name", NAMES)
def test_rescaled_copies_have_equal_results(name: str, blocks: str) -> None:
    batch, model = copies(name), metanetwork(blocks=blocks)
    assert spread(model(Canonical()(batch))) < 1e-9
    assert spread(model(batch)) > 1e-4


@pytest.mark.parametrize("name", ["mlp-tanh", "siren"])
def test_signs_alone(name: str) -> None:
    batch, model = copies(name), metanetwork()
    assert spread(model(Canonical("signs")(batch))) < 1e-9


def test_signs_do_not_change_scales() -> None:
    batch = copies("mlp-relu")
    assert Canonical("signs")(batch) is batch
    assert spread(metanetwork()(batch)) > 1e-4


@pytest.mark.parametrize("name", NAMES)
def test_results_on_nodes_are_equivariant(name: str) -> None:
    graph, model = traced(name).graph, metanetwork(level="node")
    weights = {
        n: x.double() if x.is_floating_point() else x for n, x in traced(name).model.state_dict().items()
    }
    permutation = sample(graph)
    with torch.no_grad():
        nodes, permuted = (
            model(Canonical()(gmn.collate([(graph, w)]))) for w in (weights, permutation.apply(weights))
        )
    assert torch.allclose(permutation.apply_nodes(nodes), permuted, atol=1e-9)


def test_other_functions_have_other_results() -> None:
    graph = traced("mlp-relu").graph
    noise = torch.Generator().manual_seed(0)
    first = {n: x.double() for n, x in traced("mlp-relu").model.state_dict().items()}
    second = {n: x + torch.randn(x.shape, generator=noise) for n, x in first.items()}
    assert spread(metanetwork()(Canonical()(gmn.collate([(graph, first), (graph, second)])))) > 1e-4


def test_networks_of_several_architectures() -> None:
    models = [mlp(2, 5, 1, activation=activation).double() for activation in (nn.ReLU, nn.GELU, nn.Tanh)]
    graphs = [gmn.trace(model, torch.zeros(1, 2, dtype=torch.float64)) for model in models]
    batch = gmn.collate([(g, m.state_dict()) for g, m in zip(graphs, models, strict=True)])
    canonical = Canonical()(batch)
    assert canonical.names == batch.names
    relu, gelu, tanh = zip(canonical.stacks, batch.stacks, strict=True)
    assert gelu[0] is gelu[1]
    assert relu[0].weights["2.bias"] is relu[1].weights["2.bias"]
    assert not torch.equal(relu[0].weights["0.weight"], relu[1].weights["0.weight"])
    assert (tanh[0].weights["2.weight"] > 0).all()


def test_a_batch_without_symmetries_passes_through() -> None:
    model = mlp(2, 5, 1, activation=nn.GELU)
    graph = gmn.trace(model, torch.zeros(1, 2))
    batch = gmn.collate([(graph, [model.state_dict()] * 2)])
    assert Canonical()(batch) is batch


def test_gradients_reach_the_weights() -> None:
    batch, model = copies("siren"), metanetwork()
    weights = {name: value.clone().requires_grad_() for name, value in batch.stacks[0].weights.items()}
    stack = type(batch.stacks[0])(batch.stacks[0].graph, batch.stacks[0].members, weights)
    model(Canonical()(gmn.Batch((stack,), batch.names))).sum().backward()
    assert all(value.grad is not None and value.grad.abs().max() > 0 for value in weights.values())


def test_errors() -> None:
    with pytest.raises(ValueError, match="kind='phases' is none of scales, signs"):
        Canonical("phases")  # pyright: ignore[reportArgumentType]
    model = mlp(2, 5, 1, activation=nn.ReLU)
    batch = gmn.collate([(gmn.trace(model, torch.zeros(1, 2)), [model.state_dict()] * 2)])
    with pytest.raises(gmn.StateDictMismatch, match="several channels"):
        Canonical()(batch)
    assert repr(Canonical("signs")) == "Canonical('signs')"


@pytest.mark.parametrize("blocks", ["matrix-product", "bundles"])
@pytest.mark.parametrize("name", ["mlp-relu", "siren"])
def test_as_an_option(name: str, blocks: str, tmp_path) -> None:
    batch, model = copies(name), metanetwork(blocks=blocks, canonical="scales")
    model.fit([batch])
    assert spread(model(batch)) < 1e-9
    again = gmn.GraphMetanetwork.from_pretrained(model.save_pretrained(tmp_path))
    assert torch.equal(again(batch), model(batch))
