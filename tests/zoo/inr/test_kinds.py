"""Every kind of image INR: traced, fitted as by the plain loop, rendered, and probed in one batch."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

import graph_metanetworks as gmn
from graph_metanetworks.zoo.inr import (
    CLASSIFYING,
    EDITING,
    KINDS,
    Conventions,
    FitOptions,
    fit_alone,
    fit_stacked,
    make_grid,
    render,
)
from graph_metanetworks.zoo.inr.encoded import EncodedInr

ENCODED = [kind for kind in KINDS if kind != "siren"]
SMALL = replace(CLASSIFYING, size=(8, 9))

every_kind = pytest.mark.parametrize("kind", KINDS)
every_encoding = pytest.mark.parametrize("kind", ENCODED)


def network(kind: str, conventions: Conventions = SMALL, *, outputs: int = 1, seed: int = 0):
    torch.manual_seed(seed)
    height, width = conventions.size
    return KINDS[kind].architecture.for_images(outputs, 6, 2, (height, width)).build(conventions)


def encoded(kind: str, conventions: Conventions = SMALL, *, outputs: int = 1, seed: int = 0) -> EncodedInr:
    made = network(kind, conventions, outputs=outputs, seed=seed)
    assert isinstance(made, EncodedInr)
    return made


@every_kind
@pytest.mark.parametrize("conventions", [SMALL, replace(EDITING, size=(8, 9), order="xy")])
def test_every_kind_passes_the_oracles(kind: str, conventions: Conventions) -> None:
    gmn.testing.assert_all(network(kind, conventions, outputs=3).eval(), 2 * torch.rand(7, 2) - 1)


@every_encoding
@pytest.mark.parametrize("outputs", [1, 3])
def test_populations_agree_with_the_ordinary_loop(kind: str, outputs: int) -> None:
    networks = [encoded(kind, outputs=outputs, seed=seed).double() for seed in range(3)]
    points = make_grid(SMALL, dtype=torch.float64).coordinates
    targets = torch.rand(3, outputs, len(points), dtype=torch.float64)
    options = FitOptions(steps=20, learning_rate=1e-2)
    for fit, one, target in zip(
        fit_stacked(networks, points, targets, options), networks, targets, strict=True
    ):
        before = {name: tensor.clone() for name, tensor in one.state_dict().items()}
        ordinary = fit_alone(one, points, target.T, options)
        assert fit.loss == pytest.approx(ordinary.loss, rel=1e-8)
        assert list(fit.state_dict) == list(ordinary.state_dict)
        for name, tensor in ordinary.state_dict.items():
            torch.testing.assert_close(fit.state_dict[name], tensor, rtol=0, atol=1e-9)
        assert any(not torch.equal(before[name], tensor) for name, tensor in fit.state_dict.items())


@every_encoding
def test_a_network_that_diverges_harms_no_other(kind: str) -> None:
    networks = [encoded(kind, seed=seed) for seed in range(2)]
    points, options = make_grid(SMALL).coordinates, FitOptions(5, 1e-2)
    targets = torch.rand(2, 1, len(points))
    broken = targets.clone()
    broken[0] = torch.inf
    first, second = fit_stacked(networks, points, broken, options)
    assert not first.loss < torch.inf
    assert second.loss == pytest.approx(fit_stacked(networks, points, targets, options)[1].loss)


@every_kind
def test_the_order_of_coordinates_is_one_of_names_only(kind: str) -> None:
    """A network of y and x gives the image of one of x and y, if its first layer is exchanged likewise."""
    ours, theirs = network(kind), network(kind, replace(SMALL, order="xy"))
    weights = {
        name: tensor.flip(1) if name in ("seq.0.weight", "frequencies") else tensor
        for name, tensor in ours.state_dict().items()
    }
    theirs.load_state_dict(weights)
    torch.testing.assert_close(render(ours, ours.conventions), render(theirs, theirs.conventions))


def test_rows_of_the_grid_are_rows_of_the_image() -> None:
    made = encoded("grid")
    rows = torch.arange(made.plane.shape[2], dtype=torch.float32)
    made.plane.data = rows[:, None].expand_as(made.plane).clone()
    found = made.encode(make_grid(SMALL).coordinates)[:, 0].view(8, 9)
    assert torch.allclose(found, torch.linspace(0, float(rows[-1]), 8)[:, None].expand(8, 9), atol=1e-5)


def test_neighbouring_cells_of_the_hash_grid_meet() -> None:
    made = encoded("hash")
    edge = torch.tensor([[0.3, 2 / made.resolutions[-1] - 1]])
    left, right = (made.encode(edge + shift) for shift in (-1e-6, 1e-6))
    assert torch.allclose(left, right, atol=1e-4)
    assert made.encode(torch.tensor([[-3.0, 7.5]])).isfinite().all()  # outside of the image


def outputs_of(kinds: list[str], points: Tensor) -> tuple[Tensor, Tensor]:
    """Return what probes find for a batch, two networks of each kind, and the outputs of the modules."""
    networks = [network(kind, seed=seed).eval() for kind in kinds for seed in range(2)]
    graphs = {kind: gmn.trace(network(kind).eval(), torch.zeros(1, 2)) for kind in kinds}
    named = [kind for kind in kinds for _ in range(2)]
    batch = gmn.collate([(graphs[kind], one.state_dict()) for kind, one in zip(named, networks, strict=True)])
    found = gmn.nn.Probes(len(points), (2,), inputs=points)(batch).outputs
    return found, torch.stack([one(points) for one in networks])


def test_probes_run_a_batch_of_all_kinds() -> None:
    found, expected = outputs_of(list(KINDS), 2 * torch.rand(5, 2) - 1)
    torch.testing.assert_close(found, expected)
    found.sum().backward()


@every_encoding
def test_sizes_are_checked(kind: str) -> None:
    with pytest.raises(ValueError, match=f"layers of an INR of kind {kind} must be at least 1, not 0"):
        KINDS[kind].architecture.for_images(1, 6, 0, (8, 8))
