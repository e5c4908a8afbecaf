"""Conventions, rendering and figures."""

import json
from pathlib import Path

import pytest
import torch

import graph_metanetworks as gmn
from graph_metanetworks.zoo.inr import (
    CLASSIFYING,
    EDITING,
    SINES,
    Conventions,
    Siren,
    SirenArchitecture,
    make_grid,
    render,
    save_sheet,
)


@pytest.mark.parametrize("conventions", [EDITING, CLASSIFYING, SINES, Conventions(order="xy", size=(4, 5))])
def test_conventions_survive_json(conventions: Conventions) -> None:
    assert Conventions.from_json(json.loads(json.dumps(conventions.as_json()))) == conventions


def test_coordinates() -> None:
    sines = make_grid(SINES, 2000, dtype=torch.float64).coordinates
    assert sines[0].item() == -torch.pi
    assert sines[-1].item() == pytest.approx(torch.pi - 2 * torch.pi / 2000)
    rows_first = make_grid(EDITING, (3, 5)).coordinates
    assert rows_first[1].tolist() == [-1.0, -0.5]  # one pixel to the right: y stays, x grows
    assert torch.equal(make_grid(Conventions(order="xy"), (3, 5)).coordinates, rows_first.flip(1))


def test_a_render_is_the_network_on_the_grid() -> None:
    network = Siren(SirenArchitecture(2, 3), CLASSIFYING)
    image = render(network, CLASSIFYING, (3, 4))
    one = network(make_grid(CLASSIFYING, (3, 4)).coordinates[1 * 4 + 2])
    torch.testing.assert_close(image[:, 1, 2], one.detach())
    assert torch.equal(render(network.state_dict(), CLASSIFYING, (3, 4)), image)


def test_the_offset_is_added_and_half_precision_is_read() -> None:
    weights = {
        name: torch.zeros_like(tensor).half()
        for name, tensor in Siren(SirenArchitecture(1, 1), SINES).state_dict().items()
    }
    assert torch.equal(render(weights, SINES, 7), torch.full((7,), 0.5))


def test_names_are_those_of_published_files() -> None:
    names = [f"seq.{layer}.{kind}" for layer in range(3) for kind in ("weight", "bias")]
    assert list(Siren(SirenArchitecture(2, 1), EDITING).state_dict()) == names


def test_errors_say_what_is_wrong() -> None:
    network = Siren(SirenArchitecture(2, 1), EDITING)
    with pytest.raises(ValueError, match="have no size: pass one"):
        render(network, EDITING)
    with pytest.raises(ValueError, match="2 positive numbers"):
        render(network, EDITING, (3, 0))
    with pytest.raises(ValueError, match="not the weights of a SIREN"):
        render({"fc.weight": torch.zeros(3, 3)}, EDITING, 5)
    with pytest.raises(ValueError, match="omega must be positive"):
        Conventions(omega=0.0)


@pytest.mark.parametrize(
    ("architecture", "conventions"),
    [
        (SirenArchitecture(1, 1), SINES),
        (SirenArchitecture(2, 1), EDITING),
        (SirenArchitecture(2, 3, hidden=8, layers=3), CLASSIFYING),
    ],
    ids=["sine", "grey", "colour"],
)
def test_sirens_are_traced(architecture: SirenArchitecture, conventions: Conventions) -> None:
    network = Siren(architecture, conventions)
    coordinates = torch.rand(5, architecture.inputs)
    graph = gmn.testing.assert_all(network, coordinates)
    assert graph.num_parameters == architecture.num_parameters


def test_sheets(tmp_path: Path) -> None:
    images = [torch.rand(1, 8, 8) for _ in range(3)]
    assert (
        save_sheet(tmp_path / "grey.png", images, images[::-1], CLASSIFYING, columns=2).stat().st_size > 1000
    )
    signals = [torch.sin(torch.linspace(0, 6, 50)) for _ in range(2)]
    assert save_sheet(tmp_path / "signals.png", signals, signals, SINES).is_file()
    with pytest.raises(ValueError, match="3 originals but 2 renders"):
        save_sheet(tmp_path / "wrong.png", images, images[:2], CLASSIFYING)
