"""`gmn edit`: files, zoos, pictures, and what it refuses."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from graph_metanetworks.zoo import Zoo, build
from graph_metanetworks.zoo.recipes.inrs import ImageInrs
from support.command_line import fails, succeeds

QUICK = ("--steps", "4", "--rounds", "2", "--batch-size", "8", "--setting", "60", "--quiet")


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inrs") / "zoo"
    build(
        ImageInrs(data="digits", protocol="editing", steps=20, hidden=16), 30, folder, workers=1, quiet=True
    )
    return folder


@pytest.fixture(scope="module")
def run(zoo: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "contrast"
    found = succeeds("train", "editing", zoo, "--edit", "contrast", "--out", folder, *QUICK)
    assert "identity" in found.output and f"gmn edit {folder} inr.safetensors" in found.output
    return folder


@pytest.fixture
def inr(zoo: Path, tmp_path: Path) -> Path:
    save_file(Zoo.open(zoo)[7].state_dict, tmp_path / "inr.safetensors")
    return tmp_path / "inr.safetensors"


def test_a_file_is_edited_as_in_its_zoo(run: Path, zoo: Path, inr: Path, tmp_path: Path) -> None:
    out, picture = tmp_path / "edited.safetensors", tmp_path / "edited.png"
    succeeds("edit", run, inr, "--out", out, "--picture", picture)
    assert picture.read_bytes().startswith(b"\x89PNG")
    succeeds("edit", run, zoo, "--index", "7", "--out", tmp_path / "same.safetensors")
    succeeds("edit", run, zoo, "--out", tmp_path / "all", "--picture", tmp_path / "all.svg")
    assert len(list((tmp_path / "all").iterdir())) == 30
    edited = load_file(out)
    for other in ("same.safetensors", "all/7.safetensors"):
        found = load_file(tmp_path / other)
        assert all(torch.allclose(edited[name], found[name], atol=1e-6) for name in edited)
    assert edited.keys() == Zoo.open(zoo)[7].state_dict.keys()


def test_conventions_of_a_file_can_be_given(run: Path, inr: Path, tmp_path: Path) -> None:
    words = ("edit", run, inr, "--omega", "20", "--output-offset", "0.5", "--order", "xy")
    succeeds(*words, "--out", tmp_path / "a.safetensors", "--picture", tmp_path / "a.png")
    succeeds(*words[:3], "--out", tmp_path / "b.safetensors", "--picture", tmp_path / "b.png")
    assert (tmp_path / "a.png").read_bytes() != (tmp_path / "b.png").read_bytes()


def test_refused_and_nothing_written(run: Path, zoo: Path, inr: Path, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    out = ("--out", tmp_path / "out.safetensors")
    assert "do not fit into one file: choose one with --index" in fails("edit", run, zoo, *out)
    assert "has no network 99" in fails("edit", run, zoo, "--index", "99", *out)
    assert "--index is for the networks of a zoo" in fails("edit", run, inr, "--index", "1", *out)
    assert "a zoo knows its networks and conventions" in fails("edit", run, zoo, "--omega", "3", *out)
    assert "must end in .svg" in fails("edit", run, inr, *out, "--picture", tmp_path / "a.gif")
    assert "exists: nothing was written" in fails("edit", run, inr, "--out", inr)
    assert "gmn edit" in fails("predict", run, zoo)
    torch.save(torch.nn.Linear(2, 3).state_dict(), tmp_path / "linear.pt")
    found = fails("edit", run, tmp_path / "linear.pt", *out)
    assert "not the weights of a SIREN" in found and "--network my_inr.py:build" in found
    assert sorted(tmp_path.rglob("*")) == sorted([*before, tmp_path / "linear.pt"])


def test_networks_that_are_no_inrs_cannot_be_trained_on(tmp_path: Path) -> None:
    words = ("small-cnns", "--count", "1", "--data", "digits", "--epochs", "1", "--workers", "1", "--quiet")
    succeeds("zoo", "build", *words, "--out", tmp_path / "zoo")
    found = fails("train", "editing", tmp_path / "zoo", "--out", tmp_path / "run")
    assert "represent no signal that could be rendered" in found and not (tmp_path / "run").exists()
