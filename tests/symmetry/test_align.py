"""Alignment: planted permutations are found again, nothing gets worse, a seed decides."""

import pytest
import torch
from torch import Tensor, nn

import graph_metanetworks as gmn
from graph_metanetworks.symmetry.align import Descent
from support.tiny import TINY
from support.traced import Traced, every_architecture, sample, traced


def same(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    return all(torch.equal(first[name], second[name]) for name in first)


def trained(case: Traced, steps: int = 5) -> dict[str, Tensor]:
    """Weights after a few steps of training; those of the shared network stay as they were."""
    model, before = case.model, {k: v.clone() for k, v in case.model.state_dict().items()}
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    try:
        for _ in range(steps):
            output = model(*case.args, **case.kwargs)
            tensor = output if isinstance(output, Tensor) else output.logits
            optimiser.zero_grad()
            tensor.square().mean().backward()
            optimiser.step()
        return {k: v.clone() for k, v in model.state_dict().items()}
    finally:
        model.load_state_dict(before)
        model.zero_grad(set_to_none=True)


def noisy(weights: dict[str, Tensor], amount: float, seed: int = 0) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)

    def shaken(value: Tensor) -> Tensor:
        if not value.is_floating_point() or value.numel() < 2:
            return value
        return value + amount * value.std() * torch.randn(value.shape, generator=generator)

    return {name: shaken(value) for name, value in weights.items()}


FAMILIES = ["mlp-relu", "cnn-2d-batch-norm", "resnet-basic-projection", "vision-transformer", "hf-gpt2"]


@pytest.mark.parametrize("name", FAMILIES)
def test_a_planted_automorphism_of_a_trained_network_is_recovered(name: str) -> None:
    case = traced(name)
    weights, planted = trained(case), sample(case.graph, 7)
    found = gmn.align(case.graph, weights, planted.apply(weights))
    assert found.automorphism == ~planted
    assert found.distance == 0 < found.distance_before
    assert same(found.state_dict, weights)


@pytest.mark.parametrize(
    "name", [*FAMILIES, "attention-packed-qkv", "lstm", "densenet", "resnext", "hf-llama"]
)
def test_it_is_recovered_under_noise(name: str) -> None:
    """Now the copy is not exact, so that it is found by matching alone."""
    case = traced(name)
    weights, planted = trained(case), sample(case.graph, 7)
    other = noisy(planted.apply(weights), 0.05)
    found = gmn.align(case.graph, weights, other)
    assert found.automorphism == ~planted
    assert same(found.state_dict, (~planted).apply(other))


@pytest.mark.slow
@every_architecture
def test_it_is_recovered_on_every_architecture(name: str) -> None:
    case = traced(name)
    weights, planted = case.model.state_dict(), sample(case.graph, 3)
    found = gmn.align(case.graph, weights, noisy(planted.apply(weights), 0.01))
    assert found.automorphism == ~planted


@pytest.mark.parametrize("name", ["mlp-relu", "cnn-2d-batch-norm", "attention-grouped-query", "lstm", "gat"])
def test_never_worse_than_the_start(name: str) -> None:
    case = traced(name)
    weights = case.model.state_dict()
    names = [p.name for p in case.graph.parameters]
    for seed in range(3):
        other = noisy(weights, 1.0 + seed, seed)
        found = gmn.align(case.graph, weights, other, seed=seed)
        start, end = (
            sum(float((weights[n].double() - own[n].double()).square().sum()) for n in names) ** 0.5
            for own in (other, found.state_dict)
        )
        assert end <= start
        assert found.distance_before == pytest.approx(start) and found.distance == pytest.approx(end)
        assert same(found.automorphism.apply(other), found.state_dict)


def test_equal_networks_stay() -> None:
    case = traced("resnet-basic-identity")
    found = gmn.align(case.graph, case.model.state_dict(), case.model.state_dict())
    assert found.automorphism.is_identity and found.distance == found.distance_before == 0


def test_the_same_seed_gives_the_same_result() -> None:
    case = traced("cnn-2d-plain")
    weights, other = case.model.state_dict(), noisy(case.model.state_dict(), 3.0)
    first, second = (gmn.align(case.graph, weights, other, seed=4) for _ in range(2))
    assert first.automorphism == second.automorphism


# not grouped convolutions: two axes within one group meet in a weight, and are matched in turns
EXHAUSTIVE = ["perceptron", "attention", "residual", "convolutions", "joined"]


@pytest.mark.parametrize("name", EXHAUSTIVE)
def test_the_step_along_one_factor_is_the_best_one(name: str) -> None:
    """Against all permutations along one tree of factors, with the others held still."""
    model, x, _ = TINY[name]
    graph = gmn.trace(model, x)
    weights = {p.name: torch.randn(p.shape).double() for p in graph.parameters}
    other = {p.name: torch.randn(p.shape).double() for p in graph.parameters}
    everything = _closure(graph.symmetry)
    still = graph.symmetry.identity().tables
    stack = {name: value[None] for name, value in other.items()}

    def product(s: gmn.Automorphism) -> float:
        return sum(float((weights[n] * value).sum()) for n, value in s.apply(other).items())

    for index in range(len(Descent(graph, weights, stack).trees)):
        descent = Descent(graph, weights, stack)
        tree = descent.trees[index]
        own_axes = zip(still, descent.copies.variables, strict=True)
        elsewhere = [axis for axis, copy in own_axes if copy not in tree.axes]
        own = [s for s in everything if all(torch.equal(s.tables[a], still[a]) for a in elsewhere)]
        descent.improve(tree)
        assert product(descent.permutations[0]) == pytest.approx(max(map(product, own)))


def _closure(symmetry: gmn.Symmetry) -> set[gmn.Automorphism]:
    found, waiting = {symmetry.identity()}, [symmetry.identity()]
    while waiting:
        current = waiting.pop()
        for generator in symmetry.generators():
            if (new := generator @ current) not in found:
                found.add(new)
                waiting.append(new)
    return found


def test_wrong_weights_are_explained() -> None:
    case = traced("mlp-relu")
    with pytest.raises(gmn.StateDictMismatch, match="missing"):
        gmn.align(case.graph, case.model.state_dict(), {})


def test_weights_that_are_no_numbers_are_explained() -> None:
    case = traced("mlp-relu")
    weights = case.model.state_dict()
    broken = weights | {"2.weight": weights["2.weight"] / 0}
    with pytest.raises(ValueError, match=r"'2.weight'.*not finite"):
        gmn.align(case.graph, weights, broken)


def test_interpolation() -> None:
    model = nn.BatchNorm1d(3)
    model.num_batches_tracked += 5
    first, second = model.state_dict(), {k: v + 2 for k, v in model.state_dict().items()}
    assert same(gmn.interpolate(first, second, 0.0), dict(first))
    half = gmn.interpolate(first, second, 0.5)
    assert torch.equal(half["weight"], first["weight"] + 1)
    assert torch.equal(half["num_batches_tracked"], first["num_batches_tracked"])
    assert torch.equal(gmn.interpolate(first, second, 1.0)["bias"], second["bias"])
