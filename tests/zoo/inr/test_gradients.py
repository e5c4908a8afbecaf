"""Hand-written gradients agree with autograd, and polynomial sines with torch.sin."""

import pytest
import torch

from graph_metanetworks.zoo.inr import (
    CLASSIFYING,
    EDITING,
    SINES,
    Conventions,
    Siren,
    SirenArchitecture,
    make_grid,
)
from graph_metanetworks.zoo.inr.gradients import Gradients
from graph_metanetworks.zoo.inr.sincos import sine_and_cosine

CASES = {
    "signal": (SirenArchitecture(1, 1), SINES, 60),
    "signal with a prime number of points": (SirenArchitecture(1, 1), SINES, 31),
    "grey image": (SirenArchitecture(2, 1), EDITING, (9, 7)),
    "colour image": (SirenArchitecture(2, 3), CLASSIFYING, (6, 8)),
    "x before y": (SirenArchitecture(2, 1), Conventions(order="xy"), (9, 7)),
    "one hidden layer": (SirenArchitecture(2, 1, hidden=20, layers=1), EDITING, 8),
    "three hidden layers": (SirenArchitecture(2, 1, hidden=12, layers=3), EDITING, 8),
    "deep and coloured": (SirenArchitecture(2, 3, hidden=12, layers=4), EDITING, 8),
}


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-11), (torch.float32, 5e-4)])
@pytest.mark.parametrize("case", CASES)
def test_gradients_are_those_of_autograd(case: str, dtype: torch.dtype, tolerance: float) -> None:
    architecture, conventions, size = CASES[case]
    grid = make_grid(conventions, size, dtype=dtype)
    gradients = Gradients(architecture, conventions, grid, 20)  # more than a tile
    targets = torch.randn(gradients.networks, architecture.outputs, grid.num_points, dtype=dtype)
    networks = [Siren(architecture, conventions).to(dtype) for _ in range(gradients.networks)]
    for slot, network in enumerate(networks):
        gradients.parameters.load(slot, network.state_dict())
    losses = gradients.compute(targets, [True] * gradients.networks)
    for slot, network in enumerate(networks):
        loss = torch.nn.functional.mse_loss(network(grid.coordinates).T, targets[slot])
        loss.backward()
        assert losses[slot].item() == pytest.approx(loss.item(), rel=tolerance)
        for name, parameter in network.named_parameters():
            assert parameter.grad is not None
            found, scale = gradients.gradients.tensors[name][slot], parameter.grad.abs().max().item()
            torch.testing.assert_close(found, parameter.grad, rtol=0, atol=tolerance * scale)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-6)])
def test_sine_and_cosine(dtype: torch.dtype, tolerance: float) -> None:
    turns = torch.cat((torch.linspace(-3, 3, 100_001), torch.randn(10_000) * 50)).to(dtype)
    angles = turns.double() * 2 * torch.pi
    sine, cosine, scratch = (torch.empty_like(turns) for _ in range(3))
    sine_and_cosine(turns, sine=sine, cosine=cosine, scratch=scratch)
    assert (sine - angles.sin()).abs().max() < tolerance
    assert (cosine - angles.cos()).abs().max() < tolerance
