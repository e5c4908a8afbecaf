"""Scales, signs and phases: the function is kept, all are found, and operations that break them have none."""

import copy
import pickle
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import graph_metanetworks as gmn
from graph_metanetworks.testing.function import difference, in_double, outputs
from support.tiny import Residual, mlp
from support.traced import every_architecture, traced


def kept(graph: gmn.ParameterGraph, model: nn.Module, args: tuple, kwargs: dict) -> float:
    """The largest relative change of the output in float64 under random scales and signs."""
    double, args, kwargs = in_double(model, args, kwargs)
    weights = {name: value.clone() for name, value in double.state_dict().items()}
    expected = outputs(double, weights, args, kwargs)
    samples = [graph.scaling.sample(torch.Generator().manual_seed(seed)) for seed in range(2)]
    return max(difference(expected, outputs(double, s.apply(weights), args, kwargs)) for s in samples)


@every_architecture
def test_the_function_is_kept(name: str) -> None:
    case = traced(name)
    assert kept(case.graph, case.model, case.args, case.kwargs) < 1e-9


@pytest.mark.parametrize(
    "name", ["mlp-relu", "mlp-tanh", "cnn-2d-layer-norm", "vision-transformer", "lora-merged"]
)
def test_only_what_changes_weights_is_counted(name: str) -> None:
    """The number of scales is the rank of the logarithms of factors of weights."""
    scaling = traced(name).graph.scaling
    rows = []
    for seed in range(scaling.num_scales + 5):
        sample = scaling.sample(torch.Generator().manual_seed(seed), spread=1.0)
        rows.append(torch.cat([f.abs().log().reshape(-1) for _, f in sorted(sample.factors.items())]))
    assert np.linalg.matrix_rank(torch.stack(rows).numpy(), tol=1e-8) == scaling.num_scales


def of(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(*layers).eval()


class Written(nn.Module):
    """What is written in place is seen through an older view."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(2, 4), nn.Linear(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.first(x)
        half = hidden[:, :2]
        half.copy_(torch.tanh(half))
        return self.last(torch.relu(hidden))


class TwoReaders(nn.Module):
    """A unit that is read twice: by a linear layer, and by a function that breaks scales."""

    def __init__(self, function: Callable[[Tensor], Tensor]):
        super().__init__()
        self.first, self.last = nn.Linear(2, 4), nn.Linear(4, 1)
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.relu(self.first(x))
        return self.last(hidden) + self.function(hidden).sum(-1, keepdim=True)


class HandWritten(nn.Module):
    """Linear layers with a function in between."""

    def __init__(self, function: Callable[[Tensor], Tensor]):
        super().__init__()
        self.first, self.last = nn.Linear(2, 4), nn.Linear(4, 1)
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.function(self.first(x)))


class Sine(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.sin(x)


X = torch.randn(3, 2)
IMAGE = torch.randn(2, 3, 6, 6)
COUNTS: dict[str, tuple[nn.Module, Tensor, int, int]] = {
    # network, input, scales, signs
    "relu": (mlp(2, 4, 3, 1, activation=nn.ReLU), X, 7, 0),
    "leaky relu": (mlp(2, 4, 1, activation=nn.LeakyReLU), X, 4, 0),
    "slopes": (of(nn.Linear(2, 4), nn.PReLU(4), nn.Linear(4, 1)), X, 4, 0),
    "tanh": (mlp(2, 4, 3, 1), X, 0, 7),
    "softsign": (mlp(2, 4, 1, activation=nn.Softsign), X, 0, 4),
    "tanh shrink": (mlp(2, 4, 1, activation=nn.Tanhshrink), X, 0, 4),
    "hardtanh": (mlp(2, 4, 1, activation=nn.Hardtanh), X, 0, 4),
    "relu6": (mlp(2, 4, 1, activation=nn.ReLU6), X, 0, 0),
    "gelu": (mlp(2, 4, 1, activation=nn.GELU), X, 0, 0),
    "sigmoid": (mlp(2, 4, 1, activation=nn.Sigmoid), X, 0, 0),
    "identity": (mlp(2, 4, 1, activation=nn.Identity), X, 4, 4),
    "dropout": (of(nn.Linear(2, 4), nn.ReLU(), nn.Dropout(), nn.Linear(4, 1)), X, 4, 0),
    "residual ties": (
        of(nn.Linear(2, 4), Residual(mlp(4, 3, 4, activation=nn.ReLU)), nn.Linear(4, 1)),
        X,
        7,
        4,
    ),
    "layer norm": (of(nn.Linear(2, 4), nn.LayerNorm(4), nn.ReLU(), nn.Linear(4, 1)), X, 4, 0),
    "norm without scale": (
        of(nn.Linear(2, 4), nn.LayerNorm(4, elementwise_affine=False), nn.ReLU(), nn.Linear(4, 1)),
        X,
        0,
        0,
    ),
    "softmax": (of(nn.Linear(2, 4), nn.Softmax(-1), nn.Linear(4, 1)), X, 0, 0),
    "convolutions": (
        of(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16, 1)),
        IMAGE,
        4,
        0,
    ),
    "average pool": (
        of(nn.Conv2d(3, 4, 3), nn.Tanh(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(16, 1)),
        IMAGE,
        0,
        4,
    ),
    "batch norm": (
        of(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 1, 1)),
        IMAGE,
        4,
        0,
    ),
    "depthwise": (
        of(nn.Conv2d(3, 4, 1), nn.ReLU(), nn.Conv2d(4, 8, 3, groups=4), nn.ReLU(), nn.Conv2d(8, 1, 1)),
        IMAGE,
        12,
        0,
    ),
    "transposed": (of(nn.ConvTranspose2d(3, 4, 2), nn.ReLU(), nn.Conv2d(4, 1, 1)), IMAGE, 4, 0),
    "written in place": (Written(), X, 0, 0),
    "softmax reads too": (TwoReaders(lambda x: x.softmax(-1)), X, 0, 0),
    "a sum reads too": (TwoReaders(lambda x: x), X, 0, 0),
    "plus one": (HandWritten(lambda x: torch.relu(x) + 1), X, 0, 0),
    "times two": (HandWritten(lambda x: 2 * torch.relu(x)), X, 4, 0),
    "square": (HandWritten(lambda x: x**2), X, 4, 4),
    "gated by itself": (HandWritten(lambda x: x * x.sigmoid()), X, 0, 0),
    "relu by clamp": (HandWritten(lambda x: x.clamp(min=0)), X, 4, 0),
    "relu with a threshold": (HandWritten(lambda x: nn.functional.threshold(x, 0.1, 0.0)), X, 0, 0),
    "larger of two": (HandWritten(lambda x: torch.maximum(x, -0.5 * x)), X, 4, 0),
    "rounded": (HandWritten(lambda x: x.to(torch.int32).to(x.dtype)), X, 0, 0),
    "first half": (HandWritten(lambda x: torch.cat([x[:, :2].relu(), x[:, 2:].tanh()], -1)), X, 2, 2),
    "over units": (HandWritten(lambda x: x.relu() - x.relu().mean(-1, keepdim=True)), X, 0, 0),
    "sorted": (HandWritten(lambda x: x.sort(-1).values), X, 0, 0),
}


@pytest.mark.parametrize("name", COUNTS)
def test_the_number_by_hand(name: str) -> None:
    model, x, scales, signs = COUNTS[name]
    graph = gmn.trace(model, x)
    assert (graph.scaling.num_scales, graph.scaling.num_signs) == (scales, signs)
    assert kept(graph, model, (x,), {}) < 1e-9


class Frequency(nn.Module):
    """Sines whose frequency is a tensor: an attribute, a parameter, or a buffer."""

    def __init__(self, frequency: nn.Parameter | Tensor) -> None:
        super().__init__()
        self.first, self.last, self.frequency = nn.Linear(2, 4), nn.Linear(4, 1), frequency

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.sin(self.frequency * self.first(x)))


class TwoBiases(nn.Module):
    """A sine of a sum of two layers, of which the second may have another reader."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function
        self.first, self.second, self.last = nn.Linear(2, 4), nn.Linear(2, 4), nn.Linear(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        second = self.second(x)
        return self.last(torch.sin(self.first(x) - 2 * second) * self.function(second))


def hand(function: Callable[[Tensor], Tensor]) -> nn.Module:
    return HandWritten(function)


PHASES: dict[str, tuple[nn.Module, Tensor, int, int]] = {
    # network, input, signs, phases
    "sine": (hand(torch.sin), X, 4, 4),
    "cosine": (hand(torch.cos), X, 4, 4),
    "frequency": (hand(lambda x: torch.sin(30 * x)), X, 4, 4),
    "frequencies": (hand(lambda x: torch.sin(torch.cat([x[:, :2], 3 * x[:, 2:]], dim=-1) / 2)), X, 4, 4),
    "frequency in a tensor": (Frequency(torch.tensor(5.0)), X, 4, 4),
    "learned frequency": (Frequency(nn.Parameter(torch.tensor(5.0))), X, 4, 0),
    "in place": (hand(lambda x: x.mul_(3).sin_()), X, 4, 4),
    "half of the units": (hand(lambda x: torch.cat([x[:, :2].sin(), x[:, 2:].tanh()], dim=-1)), X, 4, 2),
    "sine and cosine": (hand(lambda x: x.sin() * x.cos()), X, 4, 4),
    "sine and sine of the double": (hand(lambda x: x.sin() + (2 * x).sin()), X, 4, 0),
    "snake": (hand(lambda x: x + x.sin() ** 2), X, 0, 0),
    "another reader": (hand(lambda x: x.sin() * x.tanh()), X, 4, 0),
    "sign is lost": (hand(lambda x: torch.sigmoid(x.sin())), X, 0, 4),
    "sine of a square": (hand(lambda x: (x * x).sin()), X, 4, 0),
    "shifted by a number": (hand(lambda x: (x + 1).sin()), X, 0, 4),
    "summed": (hand(lambda x: (x - x.mean(-1, keepdim=True)).sin()), X, 0, 0),
    "two biases": (TwoBiases(torch.abs), X, 4, 4),
    "two biases, one of another sine": (TwoBiases(torch.sin), X, 4, 4),
    "without bias": (of(nn.Linear(2, 4, bias=False), Sine(), nn.Linear(4, 1)), X, 4, 0),
    "one unit": (of(nn.Linear(2, 1), Sine(), nn.Linear(1, 1)), X, 0, 1),
    "sine of the output": (of(nn.Linear(2, 3), Sine()), X, 0, 3),
    "convolution": (of(nn.Conv2d(3, 4, 3), Sine(), nn.AvgPool2d(2), nn.Conv2d(4, 1, 1)), IMAGE, 4, 4),
    "maximum": (of(nn.Conv2d(3, 4, 3), Sine(), nn.MaxPool2d(2), nn.Conv2d(4, 1, 1)), IMAGE, 0, 4),
    "layer norm": (of(nn.Linear(2, 4), nn.LayerNorm(4), Sine(), nn.Linear(4, 1)), X, 4, 4),
    "batch norm": (of(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), Sine(), nn.Conv2d(4, 1, 1)), IMAGE, 4, 4),
    "before a norm": (of(nn.Linear(2, 4), nn.LayerNorm(4, bias=False), Sine(), nn.Linear(4, 1)), X, 4, 0),
}


@pytest.mark.parametrize("name", PHASES)
def test_the_number_of_phases_by_hand(name: str) -> None:
    model, x, signs, phases = PHASES[name]
    graph = gmn.trace(model, x)
    assert (graph.scaling.num_signs, graph.scaling.num_phases) == (signs, phases)
    assert kept(graph, model, (x,), {}) < 1e-9


def test_wrong_phases_are_seen() -> None:
    """A bias moves by a half period, and the next layer must know."""
    model, x, *_ = PHASES["frequency"]
    double, args, kwargs = in_double(model, (x,), {})
    weights = {name: value.clone() for name, value in double.state_dict().items()}
    rescaled = gmn.trace(model, x).scaling.sample(torch.Generator().manual_seed(1)).apply(weights)
    moved = (rescaled["first.bias"].abs() - weights["first.bias"].abs()).abs()
    assert (moved > 0.1).any()
    expected = outputs(double, weights, args, kwargs)
    for name in ("first.bias", "last.weight"):
        torn = rescaled | {name: weights[name]}
        assert difference(expected, outputs(double, torn, args, kwargs)) > 1e-3


def test_wrong_scales_are_seen() -> None:
    """The oracle can fail: a tensor left behind changes the output."""
    case = traced("mlp-relu")
    double, args, kwargs = in_double(case.model, case.args, case.kwargs)
    weights = {name: value.clone() for name, value in double.state_dict().items()}
    rescaled = case.graph.scaling.sample(torch.Generator().manual_seed(0)).apply(weights)
    torn = rescaled | {"2.weight": weights["2.weight"]}
    expected = outputs(double, weights, args, kwargs)
    assert difference(expected, outputs(double, torn, args, kwargs)) > 1e-3


def test_samples() -> None:
    case = traced("mlp-relu")
    weights = case.model.state_dict()
    first, second = (case.graph.scaling.sample(torch.Generator().manual_seed(1)) for _ in range(2))
    assert all(torch.equal(first.factors[n], second.factors[n]) for n in first.factors)
    assert all((f > 0).all() for f in first.factors.values())
    there = first.apply(weights)
    assert not torch.allclose(there["0.weight"], weights["0.weight"])
    back = first.inverse().apply(there)
    assert all(torch.allclose(back[name], weights[name]) for name in weights)
    with pytest.raises(gmn.StateDictMismatch, match="is missing"):
        first.apply({})


def test_phases_can_be_undone() -> None:
    case = traced("siren")
    weights = {name: value.double() for name, value in case.model.state_dict().items()}
    sample = case.graph.scaling.sample(torch.Generator().manual_seed(0))
    there = sample.apply(weights)
    back = sample.inverse().apply(there)
    assert not torch.allclose(there["hidden.0.bias"].abs(), weights["hidden.0.bias"].abs())
    assert all(torch.allclose(back[name], weights[name], atol=1e-12) for name in weights)


def test_tied_weights_are_scaled_alike() -> None:
    case = traced("language-model-tied-embedding")
    rescaled = case.graph.scaling.sample().apply(case.model.state_dict())
    for parameter in case.graph.parameters:
        assert all(torch.equal(rescaled[parameter.name], rescaled[name]) for name in parameter.tied)


def test_the_explanation() -> None:
    text = traced("mlp-relu").graph.scaling.explain()
    assert text.startswith("21 positive scales and 0 signs")
    assert "0.weight (0): scales" in text and "4.weight (0)" not in text
    assert traced("mlp-gelu").graph.scaling.explain() == "No unit may be scaled or change sign."
    text = traced("siren").graph.scaling.explain()
    assert text.startswith("0 positive scales, 22 signs and 22 phases of units may be chosen:")
    assert "hidden.1.bias (0): signs and phases" in text


@pytest.mark.parametrize("again", [copy.deepcopy, lambda graph: pickle.loads(pickle.dumps(graph))])
def test_copies_of_a_graph_keep_their_scales(again: Callable) -> None:
    graph = again(gmn.trace(mlp(2, 4, 1, activation=nn.ReLU), X))
    assert graph.scaling.num_scales == 4
    assert again(gmn.trace(hand(torch.sin), X)).scaling.num_phases == 4


def test_a_recording_holds_no_tensors() -> None:
    """Weights and activations must not live as long as the graph."""
    graph = gmn.trace(mlp(2, 4, 1), X)
    assert graph.recording is not None
    for operation in graph.recording.operations:
        assert all(not ref.has_value and ref.value.numel() == 0 for ref in operation.inputs)
