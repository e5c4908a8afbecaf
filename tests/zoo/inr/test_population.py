"""Populations agree with the plain loop, whichever networks are fitted together."""

import math

import pytest
import torch
from torch import Tensor

from graph_metanetworks.zoo.inr import (
    CLASSIFYING,
    SINES,
    Fit,
    FitOptions,
    Siren,
    SirenArchitecture,
    fit_alone,
    fit_population,
    initial_weights,
    make_grid,
)
from graph_metanetworks.zoo.inr.conventions import Conventions

PUBLISHED = FitOptions(steps=40, learning_rate=5e-5, schedule="constant")
QUICK = FitOptions(steps=40, learning_rate=4e-3)
DECAYING = FitOptions(steps=40, learning_rate=1e-3, schedule="constant", weight_decay=1e-2)

Case = tuple[SirenArchitecture, Conventions, int]
IMAGES: Case = (SirenArchitecture(2, 3), CLASSIFYING, 8)
SIGNALS: Case = (SirenArchitecture(1, 1), SINES, 100)


def starts(case: Case, count: int) -> tuple[list[dict[str, Tensor]], Tensor]:
    """Return initial weights and random smooth targets."""
    architecture, conventions, size = case
    generators = [torch.Generator().manual_seed(seed) for seed in range(count)]
    points = make_grid(conventions, size).coordinates
    waves = torch.rand(count, architecture.outputs, points.shape[1]) * 4
    return [initial_weights(architecture, conventions, g) for g in generators], torch.sin(waves @ points.T)


def fitted(
    case: Case, initial: list[dict[str, Tensor]], targets: Tensor, options: FitOptions, dtype: torch.dtype
) -> list[Fit]:
    architecture, conventions, size = case
    grid = make_grid(conventions, size, dtype=dtype)
    return fit_population(architecture, conventions, grid, initial, targets.to(dtype), options)


def alone(
    case: Case, initial: dict[str, Tensor], target: Tensor, options: FitOptions, dtype: torch.dtype
) -> Fit:
    architecture, conventions, size = case
    network = Siren(architecture, conventions)
    network.load_state_dict(initial)
    coordinates = make_grid(conventions, size, dtype=dtype).coordinates
    return fit_alone(network.to(dtype), coordinates, target.T.to(dtype), options)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-2)])
@pytest.mark.parametrize("options", [PUBLISHED, QUICK, DECAYING], ids=["published", "quick", "decaying"])
@pytest.mark.parametrize("case", [IMAGES, SIGNALS], ids=["images", "signals"])
def test_populations_agree_with_the_ordinary_loop(
    case: Case, options: FitOptions, dtype: torch.dtype, tolerance: float
) -> None:
    initial, targets = starts(case, 3)
    for fit, weights, target in zip(
        fitted(case, initial, targets, options, dtype), initial, targets, strict=True
    ):
        ordinary = alone(case, weights, target, options, dtype)
        assert fit.steps == ordinary.steps == options.steps
        assert fit.loss == pytest.approx(ordinary.loss, rel=max(tolerance, 1e-8) * 10)
        for name, tensor in ordinary.state_dict.items():
            moved = (tensor - weights[name]).abs().max()
            torch.testing.assert_close(fit.state_dict[name], tensor, rtol=0, atol=tolerance * moved.item())


@pytest.mark.parametrize("case", [IMAGES, SIGNALS], ids=["images", "signals"])
def test_companions_do_not_matter(case: Case) -> None:
    """Results are equal bit for bit, with more networks than slots."""
    initial, targets = starts(case, 37)
    together = fitted(case, initial, targets, QUICK, torch.float32)
    for network in (0, 5, 36):
        single = fitted(case, initial[network:][:1], targets[network:][:1], QUICK, torch.float32)[0]
        assert single.loss == together[network].loss
        for name, tensor in single.state_dict.items():
            assert torch.equal(tensor, together[network].state_dict[name])


def test_early_stopping_freezes_a_network_as_the_ordinary_loop_does() -> None:
    options = FitOptions(steps=60, learning_rate=4e-3, schedule="constant", stop_loss=0.02)
    initial, targets = starts(SIGNALS, 40)
    fits = fitted(SIGNALS, initial, targets, options, torch.float64)
    steps = {fit.steps for fit in fits}
    assert len(steps) > 3  # they stop at different times
    assert min(steps) < 60
    for fit, weights, target in list(zip(fits, initial, targets, strict=True))[::8]:
        ordinary = alone(SIGNALS, weights, target, options, torch.float64)
        assert fit.steps == ordinary.steps
        assert fit.steps == 60 or fit.loss <= 0.02
        for name, tensor in ordinary.state_dict.items():
            torch.testing.assert_close(fit.state_dict[name], tensor, rtol=0, atol=1e-9)


def test_a_network_that_diverges_harms_no_other() -> None:
    initial, targets = starts(SIGNALS, 3)
    broken = targets.clone()
    broken[1, 0, 0] = math.inf
    fits = fitted(SIGNALS, initial, broken, QUICK, torch.float32)
    assert fits[1].steps == 0
    assert not math.isfinite(fits[1].loss)
    sound = fitted(SIGNALS, initial, targets, QUICK, torch.float32)
    for network in (0, 2):
        assert fits[network].loss == sound[network].loss


def test_weights_can_be_trained_further() -> None:
    initial, targets = starts(IMAGES, 1)
    weights = fitted(IMAGES, initial, targets, QUICK, torch.float32)[0].state_dict
    network = Siren(IMAGES[0], IMAGES[1])
    network.load_state_dict(weights, assign=True)
    network(torch.zeros(1, 2)).sum().backward()


def test_progress_goes_to_one() -> None:
    initial, targets = starts(IMAGES, 40)
    shares: list[float] = []
    architecture, conventions, size = IMAGES
    grid, options = make_grid(conventions, size), FitOptions(2, 1e-3)
    fit_population(architecture, conventions, grid, initial, targets, options, progress=shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == 1


def test_errors_say_what_is_wrong() -> None:
    initial, targets = starts(IMAGES, 2)
    with pytest.raises(ValueError, match=r"targets must be \[2, 3, 64\], not \[1, 3, 64\]"):
        fitted(IMAGES, initial, targets[:1], QUICK, torch.float32)
    with pytest.raises(ValueError, match="schedule must be 'constant' or 'cosine'"):
        FitOptions(10, 1e-3, schedule="linear")  # pyright: ignore[reportArgumentType]
