"""`gmn edit`: files, zoos, pictures, and what it refuses."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from graph_metanetworks.zoo import Zoo, build
from graph_metanetworks.zoo.inr.conventions import EDITING
from graph_metanetworks.zoo.inr.siren import Siren, SirenArchitecture, rewritten
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


def test_a_file_of_other_conventions_is_edited_as_the_same_image(
    run: Path, inr: Path, tmp_path: Path
) -> None:
    """Other frequency, offset and order of coordinates: the edit is that of the same image."""
    ours, theirs = EDITING, replace(EDITING, omega=20.0, output_offset=0.5, order="xy")
    save_file(rewritten(load_file(inr), ours, theirs), tmp_path / "other.safetensors")
    words = ("--omega", "20", "--output-offset", "0.5", "--order", "xy")
    succeeds("edit", run, inr, "--out", tmp_path / "a.safetensors", "--picture", tmp_path / "a.png")
    succeeds("edit", run, tmp_path / "other.safetensors", *words, "--out", tmp_path / "b.safetensors")
    edited = rewritten(load_file(tmp_path / "b.safetensors"), theirs, ours)
    for name, value in load_file(tmp_path / "a.safetensors").items():
        torch.testing.assert_close(edited[name], value, rtol=1e-3, atol=1e-4)


def test_edited_files_say_their_conventions(run: Path, inr: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first.safetensors", tmp_path / "second.safetensors"
    found = succeeds("edit", run, inr, "--omega", "20", "--out", first)
    assert "does not say how its network is run: taken as omega 20" in " ".join(found.output.split())
    found = succeeds("edit", run, first, "--out", second)
    assert "does not say" not in found.output
    with safe_open(second, "pt") as file:
        assert json.loads(file.metadata()["conventions"])["omega"] == 20


def test_networks_of_a_builder(run: Path, tmp_path: Path) -> None:
    (tmp_path / "my_inr.py").write_text(
        "from graph_metanetworks.zoo.inr import EDITING, Siren, SirenArchitecture\n\n\n"
        "def build(channels=1):\n    return Siren(SirenArchitecture(2, channels, 16), EDITING)\n"
    )
    network = ("--network", f"{tmp_path / 'my_inr.py'}:build")
    for channels in (1, 3):
        weights = Siren(SirenArchitecture(2, channels, 16), EDITING).state_dict()
        torch.save(weights, tmp_path / f"{channels}.pt")
    out = ("--out", tmp_path / "out.safetensors")
    found = fails("edit", run, tmp_path / "3.pt", *network, "--kwarg", "channels=3", *out)
    assert "maps 2 inputs to 3 outputs, and this run edits networks that map 2 coordinates to 1" in found
    assert "--network builds its own" in fails("edit", run, tmp_path / "1.pt", *network, "--omega", "3", *out)
    assert not out[1].exists()
    succeeds("edit", run, tmp_path / "1.pt", *network, *out)
    assert load_file(out[1]).keys() == torch.load(tmp_path / "1.pt", weights_only=True).keys()


def test_refused_and_nothing_written(run: Path, zoo: Path, inr: Path, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    out = ("--out", tmp_path / "out.safetensors")
    assert "do not fit into one file: choose one with --index" in fails("edit", run, zoo, *out)
    assert "has no network 99" in fails("edit", run, zoo, "--index", "99", *out)
    assert "--index is for the networks of a zoo" in fails("edit", run, inr, "--index", "1", *out)
    assert "a zoo knows its networks and conventions" in fails("edit", run, zoo, "--omega", "3", *out)
    assert "omega must be positive" in fails("edit", run, inr, "--omega", "-1", *out)
    save_file(Siren(SirenArchitecture(1, 1), EDITING).state_dict(), tmp_path / "signal.safetensors")
    assert "maps 1 coordinates" in fails("edit", run, tmp_path / "signal.safetensors", *out)
    (tmp_path / "signal.safetensors").unlink()
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


def test_methods_that_cannot_edit_are_refused_before_any_training(zoo: Path, tmp_path: Path) -> None:
    words = ("--methods", "gmn,statnn", "--seeds", "1", "--settings", "60", *QUICK[:6], "--quiet")
    found = fails("experiment", "editing", "--zoo", zoo, "--out", tmp_path / "experiment", *words)
    assert "statnn gives one result per graph" in found and not list(tmp_path.rglob("run.json"))
    found = fails("train", "editing", zoo, "--method", "statnn", "--out", tmp_path / "run", *QUICK)
    assert "statnn gives one result per graph" in found and not (tmp_path / "run").exists()
