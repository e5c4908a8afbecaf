"""Canonical scales, signs and phases: the same for all copies, the same function, no order of units."""

from collections.abc import Callable, Mapping

import pytest
import torch
from torch import Tensor, nn

import graph_metanetworks as gmn
from graph_metanetworks.testing.function import difference, in_double, outputs
from support.tiny import mlp
from support.traced import every_architecture, sample, traced

StateDict = dict[str, Tensor]
X = torch.randn(3, 2)


def distance(ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> float:
    """The largest difference relative to the largest weight of a tensor."""
    assert ours.keys() == theirs.keys()
    pairs = [(ours[n].double(), theirs[n].double()) for n in ours if ours[n].is_floating_point()]
    return max(
        [float((a - b).abs().max() / b.abs().max().clamp(min=1e-12)) for a, b in pairs if a.numel()],
        default=0.0,
    )


def in_float64(weights: Mapping[str, Tensor]) -> StateDict:
    return {n: x.double() if x.is_floating_point() else x for n, x in weights.items()}


def rescaled(graph: gmn.ParameterGraph, weights: StateDict, seed: int) -> StateDict:
    return graph.scaling.sample(torch.Generator().manual_seed(seed)).apply(weights)


# ------------------------------------------------------------------ the menagerie


@every_architecture
def test_all_copies_have_one_representative(name: str) -> None:
    """Every scale, sign and phase is decided, so that nothing is left to differ."""
    case = traced(name)
    scaling, weights = case.graph.scaling, in_float64(case.model.state_dict())
    assert scaling.canonical_scales.plan.decided == scaling.num_scales
    assert scaling.num_signs <= scaling.canonical_signs.plan.decided <= scaling.num_signs + scaling.num_phases
    canonical = scaling.canonical(weights)
    for seed in range(2):
        assert distance(scaling.canonical(rescaled(case.graph, weights, seed)), canonical) < 1e-9
    assert distance(scaling.canonical(canonical), canonical) < 1e-9


@every_architecture
def test_the_function_is_kept(name: str) -> None:
    case = traced(name)
    double, args, kwargs = in_double(case.model, case.args, case.kwargs)
    weights = {name: value.clone() for name, value in double.state_dict().items()}
    canonical = case.graph.scaling.canonical(weights)
    assert difference(outputs(double, weights, args, kwargs), outputs(double, canonical, args, kwargs)) < 1e-9


@every_architecture
def test_it_commutes_with_permutations(name: str) -> None:
    case = traced(name)
    scaling, weights = case.graph.scaling, in_float64(case.model.state_dict())
    permutation = sample(case.graph, 3)
    permuted = scaling.canonical(permutation.apply(weights))
    assert distance(permuted, permutation.apply(scaling.canonical(weights))) < 1e-9


@every_architecture
def test_gradients_reach_the_weights_of_a_stack(name: str) -> None:
    """And three networks at once have the same representatives as one by one."""
    case = traced(name)
    graph, weights = case.graph, in_float64(case.model.state_dict())
    networks = [weights, *(shaken(weights, seed) for seed in range(2))]
    stacks = gmn.collate([(graph, graph.checked(w)) for w in networks]).stacks[0].weights
    leaves = {name: value.clone().requires_grad_() for name, value in stacks.items()}
    found = graph.scaling.canonical_stack(leaves)
    for number, network in enumerate(networks):
        single = graph.scaling.canonical(graph.checked(network))
        one = {n: found[n].detach()[:, number, 0].reshape(single[n].shape) for n in single}
        assert distance(one, single) < 1e-12
    torch.stack([value.square().sum() for value in found.values()]).sum().backward()
    assert all(value.grad is not None and value.grad.isfinite().all() for value in leaves.values())


def shaken(weights: StateDict, seed: int) -> StateDict:
    noise = torch.Generator().manual_seed(seed)
    return {
        name: x + 0.3 * torch.randn(x.shape, generator=noise, dtype=x.dtype) if x.is_floating_point() else x
        for name, x in weights.items()
    }


# ------------------------------------------------------------------ what it is


def made(model: nn.Module, x: Tensor = X) -> tuple[gmn.ParameterGraph, StateDict]:
    return gmn.trace(model, x), in_float64(model.state_dict())


def test_units_of_a_layer_have_equal_norms() -> None:
    graph, weights = made(mlp(2, 6, 5, 1, activation=nn.ReLU))
    canonical = graph.scaling.canonical(weights)
    norms = torch.cat([canonical["0.weight"], canonical["0.bias"][:, None]], dim=1).norm(dim=1)
    assert torch.allclose(norms, norms[0])


def test_layers_share_the_size_of_weights() -> None:
    """A large last layer does not stay large: norms of layers become equal."""
    graph, weights = made(mlp(2, 6, 5, 1, activation=nn.ReLU))
    weights |= {"4.weight": 1000 * weights["4.weight"]}
    canonical = graph.scaling.canonical(weights)
    sizes = [
        canonical[f"{layer}.weight"].norm() / canonical[f"{layer}.weight"].shape[0] ** 0.5
        for layer in (0, 2, 4)
    ]
    assert max(sizes) / min(sizes) < 3


def test_other_weights_have_other_representatives() -> None:
    graph, weights = made(mlp(2, 6, 1, activation=nn.ReLU))
    other = weights | {"0.weight": weights["0.weight"] * torch.tensor([1.0, 1.01], dtype=torch.float64)}
    canonical = graph.scaling.canonical(weights)
    assert distance(graph.scaling.canonical(other), canonical) > 1e-4
    torn = weights | {"2.weight": rescaled(graph, weights, 0)["2.weight"]}
    assert distance(graph.scaling.canonical(torn), canonical) > 1e-2


def test_signs_are_those_of_sums() -> None:
    graph, weights = made(mlp(2, 6, 5, 1))
    canonical = graph.scaling.canonical(weights)
    assert (canonical["0.weight"].sum(1) > 0).all()  # at the inputs
    assert (canonical["4.weight"].sum(0) > 0).all()  # at the outputs


def test_the_scale_of_a_norm_becomes_positive() -> None:
    graph, weights = made(nn.Sequential(nn.Linear(2, 6), nn.LayerNorm(6), nn.Linear(6, 1)))
    weights["1.weight"] = torch.randn(6, dtype=torch.float64)
    canonical = graph.scaling.canonical(weights, kind="signs")
    assert torch.equal(canonical["1.weight"], weights["1.weight"].abs())


def test_signs_alone() -> None:
    graph, weights = made(mlp(2, 6, 2, activation=nn.Identity))
    canonical = graph.scaling.canonical(weights, kind="signs")
    assert all(torch.equal(canonical[name].abs(), weights[name].abs()) for name in weights)
    assert (canonical["0.weight"].sum(1) > 0).all()


class Sines(nn.Module):
    def __init__(self, frequency: float = 30.0) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Linear(2, 6), nn.Linear(6, 5), nn.Linear(5, 1)
        self.frequency = frequency

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.sin(self.frequency * self.first(x))
        return self.head(torch.sin(self.frequency * self.second(hidden)))


def test_phases_become_small() -> None:
    graph, weights = made(Sines())
    weights = {name: value + 3 * torch.randn_like(value) for name, value in weights.items()}
    canonical = graph.scaling.canonical(weights)
    for name in ("first.bias", "second.bias"):
        assert (30 * weights[name]).abs().max() > torch.pi / 2
        assert (30 * canonical[name]).abs().max() <= torch.pi / 2 + 1e-9
    assert (canonical["first.weight"].sum(1) > 0).all() and (canonical["head.weight"] > 0).all()


def test_gradients_pass_phases_unchanged() -> None:
    graph, weights = made(Sines())
    bias = weights["first.bias"].add(2).requires_grad_()
    canonical = graph.scaling.canonical(weights | {"first.bias": bias})
    (gradient,) = torch.autograd.grad(canonical["first.bias"].sum(), bias)
    assert (gradient.abs() == 1).all()


# ------------------------------------------------------------------ degenerate weights


@pytest.mark.parametrize("activation", [nn.ReLU, nn.Tanh])
@pytest.mark.parametrize("size", [0.0, 1e-30])
def test_dead_units_stay_as_they_are(activation: Callable, size: float) -> None:
    graph, weights = made(mlp(2, 4, 1, activation=activation))
    for name in ("0.weight", "0.bias"):
        weights[name][1] = size
    weights = {name: value.requires_grad_() for name, value in weights.items()}
    canonical = graph.scaling.canonical(weights)
    assert canonical["0.weight"][1].abs().max() <= 10 * size
    assert canonical["2.weight"][0, 1].abs() < 10
    total = torch.stack([value.sum() for value in canonical.values()]).sum()
    gradients = torch.autograd.grad(total, list(weights.values()))
    assert all(gradient.isfinite().all() and gradient.abs().max() < 1e3 for gradient in gradients)


def test_zeros() -> None:
    graph, weights = made(mlp(2, 4, 1, activation=nn.ReLU))
    zeros = {name: torch.zeros_like(value) for name, value in weights.items()}
    assert all(not value.any() for value in graph.scaling.canonical(zeros).values())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_lower_precision(dtype: torch.dtype) -> None:
    graph, weights = made(mlp(2, 6, 5, 1, activation=nn.ReLU))
    low = graph.scaling.canonical({name: value.to(dtype) for name, value in weights.items()})
    assert all(value.dtype == dtype for value in low.values())
    assert distance(low, graph.scaling.canonical(weights)) < 10 * torch.finfo(dtype).eps


# ------------------------------------------------------------------ interface


def test_what_nothing_changes_is_not_copied() -> None:
    graph, weights = made(mlp(2, 4, 1, activation=nn.ReLU))
    canonical = graph.scaling.canonical(weights)
    assert canonical["2.bias"] is weights["2.bias"] and canonical["0.bias"] is not weights["0.bias"]
    plain, weights = made(mlp(2, 4, 1, activation=nn.GELU))
    assert all(value is weights[name] for name, value in plain.scaling.canonical(weights).items())


def test_errors() -> None:
    graph, weights = made(mlp(2, 4, 1, activation=nn.ReLU))
    with pytest.raises(gmn.StateDictMismatch, match="is missing"):
        graph.scaling.canonical({"0.bias": weights["0.bias"]})
    with pytest.raises(gmn.StateDictMismatch, match=r"'0.bias' has shape \(5,\), but .* \(4,\)"):
        graph.scaling.canonical(weights | {"0.bias": torch.zeros(5)})
    with pytest.raises(ValueError, match="kind='phases' is none of scales, signs"):
        graph.scaling.canonical(weights, kind="phases")  # pyright: ignore[reportArgumentType]
    two = {name: torch.stack([x.reshape(-1, 1)] * 2, dim=-1) for name, x in weights.items()}
    with pytest.raises(gmn.StateDictMismatch, match="several channels"):
        graph.scaling.canonical_stack(two)
