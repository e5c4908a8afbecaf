"""Which tensor shows the activations of a node group."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import graph_metanetworks as gmn
from support.composed import Composed

X = torch.randn(6, 3, generator=torch.Generator().manual_seed(1))  # [positions, inputs]
NORM = nn.LayerNorm(4, elementwise_affine=False)

# a network of two layers with a function between them, and the activations of the neurons in the middle
CHOSEN: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    "nothing": (lambda h: h, lambda h: h),
    "an activation function": (torch.relu, torch.relu),
    "one in place": (lambda h: h.relu_(), torch.relu),
    "the first after the activation function": (lambda h: NORM(torch.tanh(h)) * 2, torch.tanh),
    "a norm before the activation function": (lambda h: NORM(h).relu(), lambda h: NORM(h).relu()),
    "an activation function written out": (lambda h: h * torch.sigmoid(h), nn.functional.silu),
    "the last without an activation function": (lambda h: NORM(h) + 1, lambda h: NORM(h) + 1),
    "before positions are pooled": (lambda h: (h + 1).mean(0, keepdim=True), lambda h: h + 1),
    "before a function of what was pooled": (lambda h: (h + 1).mean(0, keepdim=True) * 2, lambda h: h + 1),
}


@pytest.mark.parametrize("name", CHOSEN)
def test_the_tensor_that_is_chosen(name: str) -> None:
    function, expected = CHOSEN[name]
    first, last = nn.Linear(3, 4), nn.Linear(4, 2)
    model = Composed(lambda x, a, b: b(function(a(x))), first, last)
    graph = gmn.trace(model, X)
    activity = graph.activity(model.state_dict(), X)
    with torch.no_grad():
        hidden = expected(first(X))
        outputs = last(function(first(X)))
    for kind, values in (("input", X), ("neuron", hidden), ("output", outputs)):
        (group,) = (group for group in graph.groups if group.kind == kind)
        assert torch.allclose(activity[group.nodes, 0], values.mean(0), atol=1e-6), kind
        assert torch.allclose(activity[group.nodes, 1], values.std(0, correction=0), atol=1e-6), kind


def test_nodes_that_occur_at_several_places() -> None:
    """Flattened places of a feature map show the same channel."""
    convolution, last = nn.Conv2d(1, 2, 3), nn.Linear(8, 1)
    x = torch.randn(1, 1, 4, 4)
    model = Composed(lambda x, a, b: b(a(x).permute(0, 2, 3, 1).flatten(1).tanh()), convolution, last)
    graph = gmn.trace(model, x)
    (channels,) = (group for group in graph.groups if group.kind == "channel")
    with torch.no_grad():
        hidden = convolution(x).tanh()[0].flatten(1)
    found = graph.activity(model.state_dict(), x)[channels.nodes]
    assert torch.allclose(found, torch.stack([hidden.mean(1), hidden.std(1, correction=0)], 1), atol=1e-6)


def test_nodes_of_parameters_have_no_activations() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.BatchNorm1d(4), nn.Linear(4, 2))
    graph = gmn.trace(model, X)
    hidden = {group.kind for group in graph.groups if not graph.shown_nodes[group.nodes].any()}
    assert hidden == {group.kind for group in graph.groups} - {"input", "neuron", "output"}
    assert not graph.activity(model.state_dict(), X)[~graph.shown_nodes].any()


@pytest.mark.parametrize("lowest", [float("-inf"), torch.finfo(torch.float32).min])
def test_masked_entries_are_left_out(lowest: float) -> None:
    """A maximum over some positions, where the others are infinitely small."""
    mask = torch.tensor([0, 0, lowest, 0, lowest, 0])[:, None]
    first, last = nn.Linear(3, 4), nn.Linear(4, 2)
    model = Composed(lambda x, a, b: b((a(x) + mask).amax(0, keepdim=True)), first, last)
    graph = gmn.trace(model, X)
    weights = {name: value.clone().requires_grad_() for name, value in model.state_dict().items()}
    activity = graph.activity(weights, X)
    (neurons,) = (group for group in graph.groups if group.kind == "neuron")
    with torch.no_grad():
        hidden = torch.where(mask < 0, 0, first(X))
    assert torch.allclose(activity[neurons.nodes, 0], hidden.mean(0), atol=1e-6)
    activity.square().sum().backward()
    assert all(value.grad is not None and value.grad.isfinite().all() for value in weights.values())


def test_a_network_that_explodes_has_finite_activity() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    graph = gmn.trace(model, X)
    huge = {name: value * 1e38 for name, value in model.state_dict().items()}
    assert graph.activity(huge, X).isfinite().all()
