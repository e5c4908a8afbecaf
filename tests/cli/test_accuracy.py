"""gmn train accuracy, gmn predict, gmn experiment accuracy: what a user types, and what is said."""

import csv
import json
import pickle
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from graph_metanetworks import experiments
from graph_metanetworks.zoo import Zoo
from support.command_line import fails, run, succeeds
from support.scaled_networks import scaled_zoo

NETWORK = """
from torch import nn

def build(hidden=4):
    return nn.Sequential(nn.Linear(2, hidden), nn.ReLU(), nn.Linear(hidden, 3))
"""
QUICK = ("--steps", 6, "--rounds", 2, "--batch-size", 8, "--quiet")


def passes(*args: object) -> str:
    return succeeds(*args).output


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A zoo, a run on it, a network and checkpoints of it."""
    place = tmp_path_factory.mktemp("accuracy")
    zoo = scaled_zoo(place / "zoo")
    passes("train", "accuracy", zoo.folder, "--out", place / "run", "--setting", 50, *QUICK)
    (place / "network.py").write_text(NETWORK)
    (place / "weights").mkdir()
    own = [n for n in zoo if n.config.family == "shallow" and n.config.hidden == 4][:3]
    for network in own:
        save_file(network.state_dict, place / "weights" / f"{network.index}.safetensors")
    return place


def test_scores_are_printed(folder: Path, tmp_path: Path) -> None:
    words = ("--out", tmp_path / "run", "--method", "statnn-boosting", "--setting", "ood")
    output = passes("train", "accuracy", folder / "zoo", *words, *QUICK)
    assert "validation" in output and "R²" in output and "gmn predict" in output
    assert "parameters" not in output  # trees have none


def test_a_run_is_not_used_again(folder: Path) -> None:
    words = ("train", "accuracy", folder / "zoo", "--out", folder / "run")
    assert "finished run" in fails(*words, "--setting", 50, *QUICK)
    assert "holds another run: setting: '50', not '60'" in fails(*words, "--setting", 60, *QUICK)


def test_predict_checkpoints(folder: Path, tmp_path: Path) -> None:
    target = ("--network", f"{folder / 'network.py'}:build", "--quiet")
    output = passes("predict", folder / "run", folder / "weights", *target, "--csv", tmp_path / "p.csv")
    assert output.count(".safetensors") >= 3 and "interval" in output
    assert "out of distribution" in output.splitlines()[1]
    with (tmp_path / "p.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3 and all(0 <= float(row["low"]) <= float(row["high"]) <= 1 for row in rows)
    first = sorted((folder / "weights").iterdir())[0]
    printed = json.loads(passes("predict", folder / "run", first, *target, "--json", "-"))
    assert printed[0]["accuracy"] == pytest.approx(float(rows[0]["accuracy"]))
    assert "exists: nothing was written" in fails(
        "predict", folder / "run", first, *target, "--csv", tmp_path / "p.csv"
    )


def test_predict_a_zoo(folder: Path) -> None:
    found = json.loads(passes("predict", folder / "run", folder / "zoo", "--json", "-"))
    assert len(found) == len(Zoo.open(folder / "zoo"))
    assert found[3]["name"].startswith("network 3 of")


def test_bad_checkpoints(folder: Path, tmp_path: Path) -> None:
    build = f"{folder / 'network.py'}:build"
    good = sorted((folder / "weights").iterdir())[0]
    words = ("predict", folder / "run")
    assert "as --network my_model.py:build" in fails(*words, good)
    assert "does not fit Sequential" in fails(*words, good, "--network", build, "--kwarg", "hidden=5")
    (tmp_path / "evil.pt").write_bytes(pickle.dumps({"weights": print}, protocol=2))
    assert "it was not opened: it could run any code" in fails(
        *words, tmp_path / "evil.pt", "--network", build
    )
    (tmp_path / "empty").mkdir()
    assert "has no checkpoints" in fails(*words, tmp_path / "empty", "--network", build)
    assert "there is no file or folder" in fails(*words, tmp_path / "nothing", "--network", build)
    assert "there is no run" in fails("predict", tmp_path, good, "--network", build)
    assert "--level 2.0 must lie between 0 and 1" in fails(*words, good, "--network", build, "--level", 2)


def test_networks_that_are_not_finite_are_left_out(folder: Path, tmp_path: Path) -> None:
    good = sorted((folder / "weights").iterdir())[0]
    weights = {name: x.fill_(torch.nan) for name, x in load_file(good).items()}
    save_file(weights, tmp_path / "nan.safetensors")
    words = ("predict", folder / "run", tmp_path / "nan.safetensors")
    target = ("--network", f"{folder / 'network.py'}:build")
    assert "the weights of every network are NaN or infinite" in fails(*words, *target)
    result = run(*words, good, *target, "--json", "-")
    assert [own["name"] for own in json.loads(result.stdout)] == [str(good)]
    assert "left out 1 of 2 networks" in result.stderr and "nan.safetensors" in result.stderr
    broken = scaled_zoo(tmp_path / "broken", 12, broken=4).folder
    result = run("predict", folder / "run", broken, "--json", "-")
    assert 0 < len(json.loads(result.stdout)) < 12 and "of 12 networks" in result.stderr
    none = scaled_zoo(tmp_path / "none", 4, broken=1).folder
    for words in ((), ("--csv", tmp_path / "p.csv")):
        assert "nothing to predict" in fails("predict", folder / "run", none, *words)
    assert not (tmp_path / "p.csv").exists()


def test_files_that_are_no_checkpoints(
    folder: Path, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    words = ("predict", folder / "run", "--network", f"{folder / 'network.py'}:build")
    for name in ("a.safetensors", "a.pt", "a.bin"):
        (tmp_path / name).write_bytes(b"hello, no weights are here")
        assert f"{name}' is no checkpoint" in fails(*words, tmp_path / name)
    (tmp_path / "b.pt").write_bytes(pickle.dumps({"weights": [1]}))
    recwarn.clear()
    assert "a pickle that PyTorch did not write" in fails(*words, tmp_path / "b.pt")
    assert not recwarn.list


def test_zoos_inside_a_folder_are_zoos(folder: Path, tmp_path: Path) -> None:
    scaled_zoo(tmp_path / "zoos" / "a", 5)
    scaled_zoo(tmp_path / "zoos" / "b", 6)
    words = ("predict", folder / "run", tmp_path / "zoos")
    assert len(json.loads(passes(*words, "--json", "-"))) == 11
    shutil.copy(sorted((folder / "weights").iterdir())[0], tmp_path / "zoos")
    target = ("--network", f"{folder / 'network.py'}:build")
    assert len(json.loads(passes(*words, *target, "--json", "-"))) == 12


def test_files_that_cannot_be_written_are_refused_first(folder: Path, tmp_path: Path) -> None:
    for option in ("--csv", "--json"):
        words = ("predict", tmp_path / "no run", folder / "zoo", option, tmp_path / "no" / "such" / "file")
        assert "there is no folder" in fails(*words)


def test_wrong_options_claim_no_folder(folder: Path, tmp_path: Path) -> None:
    words = ("train", "accuracy", folder / "zoo", "--out", tmp_path / "run", "--setting", 50, *QUICK)
    wrong = {
        ("--accelerator", "foo"): "--accelerator foo",
        ("--learning-rate", -1): "a learning rate must be positive",
        ("--logger", "neptune"): "there is no logger neptune",
        ("--devices", 3): "multiple of 3",
        ("--tune", "--learning-rate", 0.1): "either --tune or --learning-rate 0.1",
        ("--tune", "--method", "statnn-boosting"): "no learning rate to tune",
    }
    for options, message in wrong.items():
        assert message in fails(*words, *options)
    assert not (tmp_path / "run").exists()


def test_bad_zoos(folder: Path, tmp_path: Path) -> None:
    one = scaled_zoo(tmp_path / "one", 20, one_size=True).folder
    words = ("train", "accuracy", one, "--out", tmp_path / "run", *QUICK)
    assert "needs networks of several hidden sizes" in fails(*words, "--setting", "ood")
    assert "has no column 'accuracy'" in fails(*words, "--label", "accuracy")
    assert "there is no method 'cnn'" in fails(*words, "--method", "cnn")
    assert "there is no zoo in" in fails("train", "accuracy", tmp_path / "nothing", "--out", tmp_path / "run")
    broken = scaled_zoo(tmp_path / "broken", 30, broken=4).folder
    words = ("--out", tmp_path / "other", "--method", "statnn-boosting", "--setting", 50, *QUICK)
    assert "networks: their weights are NaN" in passes("train", "accuracy", broken, *words)


class Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.sources: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.sources += [value or "" for name, value in attrs if name in ("src", "href")]


def test_the_experiment(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = (
        "experiment",
        "accuracy",
        "--zoo",
        folder / "zoo",
        "--out",
        tmp_path / "e",
        "--settings",
        "50,ood",
    )
    methods = ("--methods", "deepsets,statnn-boosting")
    output = passes(*words, *methods, "--seeds", 1, *QUICK)
    assert (
        "50 % R²" in output
        and "one seed" in output
        and "ood tau" in output
        and "report.html" in output.replace("\n", "")
    )
    page = Page()
    text = (tmp_path / "e" / "report.html").read_text()
    page.feed(text)
    assert all(source.startswith(("#", "data:image/svg+xml")) for source in page.sources)
    assert not {"script", "link"} & set(page.tags) and page.tags.count("img") >= 6
    for question in ("one family and size", "without the weights", "keep their promise", "order of neurons"):
        assert question in text
    assert "untrained networks" in text
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "e").rglob("run.json")}
    assert len(before) == 4
    more = ("--settings", "50", "--seeds", 2)
    monkeypatch.setattr(experiments, "write_report", lambda *_, **__: tmp_path)  # takes seconds
    passes(*words, *methods, *more, *QUICK)  # resumes: finished runs are not trained again
    assert all(p.stat().st_mtime_ns == time for p, time in before.items())
    with (tmp_path / "e" / "runs.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 4


def test_bad_experiments(folder: Path, tmp_path: Path) -> None:
    words = ("experiment", "accuracy", "--zoo", folder / "zoo", "--out", tmp_path, *QUICK)
    assert "there is no method 'gnm'" in fails(*words, "--methods", "gmn,gnm")
    assert "there is no setting 'all'" in fails(*words, "--settings", "50,all")
