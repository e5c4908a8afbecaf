"""Networks of layers on rows run in one product per layer, with the results and gradients of other ways."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import gradcheck, gradgradcheck
from torch.func import vmap

import graph_metanetworks as gmn
from graph_metanetworks.testing.function import difference
from graph_metanetworks.trace.replay.layered import LayeredProgram
from graph_metanetworks.trace.replay.program import Program
from graph_metanetworks.trace.replay.sine import sine_layer
from graph_metanetworks.trace.replay.stacked import run_stacked
from graph_metanetworks.zoo.inr import Conventions, Siren, SirenArchitecture

NETWORKS, POINTS = 3, 5


class Features(nn.Module):
    """Fixed frequencies, several functions, a branch, a layer without biases, and two results."""

    def __init__(self) -> None:
        super().__init__()
        self.frequencies = nn.Buffer(torch.randn(2, 6))
        self.first, self.second = nn.Linear(14, 8), nn.Linear(8, 8, bias=False)
        self.single = nn.Linear(8, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        angles = x @ self.frequencies
        h = torch.tanh(self.first(torch.cat([angles.sin(), angles.cos(), x], dim=-1)))
        h = h + 0.5 * torch.nn.functional.gelu(self.second(h), approximate="tanh")
        return h.clamp(min=0), torch.sin(self.second(h) * 3) + self.single(h).exp()


LAYERED: dict[str, Callable[[], nn.Module]] = {
    "siren": lambda: Siren(SirenArchitecture(2, 3, hidden=8), Conventions(output_offset=0.5)),
    "features": Features,
    "one layer": lambda: nn.Linear(2, 3),
    "no bias": lambda: nn.Sequential(nn.Linear(2, 4, bias=False), nn.Tanh(), nn.Linear(4, 1)),
}
OTHERS: dict[str, Callable[[], nn.Module]] = {
    "norm": lambda: nn.Sequential(nn.Linear(2, 4), nn.LayerNorm(4)),
    "softmax": lambda: nn.Sequential(nn.Linear(2, 4), nn.Softmax(-1)),
    "in place": lambda: nn.Sequential(nn.Linear(2, 4), nn.ReLU(inplace=True)),
    "weight norm": lambda: nn.utils.parametrizations.weight_norm(nn.Linear(2, 4)),
}


def program_of(model: nn.Module) -> tuple[gmn.ParameterGraph, Program]:
    graph = gmn.trace(model, torch.zeros(1, 2, dtype=torch.float64))
    assert graph.recording is not None
    program = graph.recording.program
    assert isinstance(program, Program)
    return graph, program


def results(model: nn.Module, networks: int, *, layered: bool) -> list[Tensor]:
    """Outputs of networks that differ, and the gradients of weights and inputs."""
    graph, program = program_of(model)
    assert program.layered is not None
    if not layered:
        program.layered = None
    torch.manual_seed(0)
    given = {n: v[None] * (1 + 0.1 * torch.randn(networks, *v.shape)) for n, v in model.state_dict().items()}
    weights = {name: value.double().requires_grad_() for name, value in given.items()}
    recording = graph.recording
    assert recording is not None
    (key,) = recording.inputs
    inputs = torch.randn(POINTS, 1, 2, dtype=torch.float64, requires_grad=True)
    outputs, _ = run_stacked(recording, weights, {key: inputs})
    loss = torch.stack([output.square().sum() for output in outputs]).sum()
    gradients = torch.autograd.grad(loss, [*weights.values(), inputs])
    return [*(output.detach() for output in outputs), *gradients]


@pytest.mark.parametrize("networks", [1, NETWORKS])
@pytest.mark.parametrize("name", LAYERED)
def test_results_and_gradients_are_those_of_vmap(name: str, networks: int) -> None:
    model = LAYERED[name]().double()
    expected, found = (results(model, networks, layered=layered) for layered in (False, True))
    assert [own.shape for own in found] == [own.shape for own in expected]
    assert difference(expected, found) < 1e-12


@pytest.mark.parametrize("name", OTHERS)
def test_other_networks_are_left_to_vmap(name: str) -> None:
    assert program_of(OTHERS[name]().double())[1].layered is None


def test_a_layer_its_frequency_and_its_sines_are_one_step() -> None:
    def functions(model: nn.Module) -> list[str]:
        layered = program_of(model.double())[1].layered
        assert isinstance(layered, LayeredProgram)
        return [step.run.__name__ for step in layered.steps if step.kind == "columns"]

    assert functions(Siren(SirenArchitecture(2, 1), Conventions())) == ["_sine_layer"] * 2 + ["_layer"]

    class Twice(nn.Linear):
        def forward(self, input: Tensor) -> Tensor:
            angles = 3 * super().forward(input)
            return angles.sin() + angles.cos()

    assert "_sine_layer" not in functions(Twice(2, 4))  # the cosine needs the angles, too


# ------------------------------------------------------------------ sines


def arguments(networks: int) -> tuple[Tensor, ...]:
    torch.manual_seed(0)
    bias, columns, weight = torch.randn(2, 3), torch.randn(networks, 4, 5), torch.randn(2, 3, 4)
    return tuple(own.double().requires_grad_() for own in (bias, columns, weight))


@pytest.mark.parametrize("networks", [1, 2])
def test_derivatives_of_sine_layers(networks: int) -> None:
    """Of first and second order, forward and backward."""
    own = arguments(networks)
    assert gradcheck(lambda *given: sine_layer(*given, scale=2.0), own, check_forward_ad=True)
    assert gradgradcheck(sine_layer, own)


def test_sine_layers_under_vmap() -> None:
    bias, columns, weight = arguments(2)
    each = vmap(lambda factor: sine_layer(bias, factor * columns, weight))(torch.tensor([1.0, 2.0]))
    assert torch.allclose(each[1], sine_layer(bias, 2 * columns, weight))


def test_sine_layers_are_as_exact_as_sines() -> None:
    torch.manual_seed(0)
    weight = torch.linspace(-200, 200, 100_000)[None, :, None]
    bias, columns = torch.zeros(1, 100_000, requires_grad=True), torch.ones(1, 1, 1)
    found = sine_layer(bias, columns, weight)
    assert (found - weight.double().sin()).abs().max() < 3e-7
    found.sum().backward()
    assert bias.grad is not None
    assert (bias.grad - weight[..., 0].double().cos()).abs().max() < 3e-7
