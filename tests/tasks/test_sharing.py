"""Sharing runs, metanetworks and zoos, with a stand-in for the hub and folders as it lays them out."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

import graph_metanetworks as gmn
from graph_metanetworks.cli import app
from graph_metanetworks.errors import StorageError, TaskError, ZooError
from graph_metanetworks.tasks import Runner
from support.checkpoint_folder import write_folder
from support.scaled_networks import scaled_zoo

hub = pytest.importorskip("huggingface_hub")
REVISION = "a" * 40


class StandIn:
    """The part of the hub's client that is used; repositories are folders in the layout of its cache."""

    cache: Path

    def __init__(self, *, token: str | None = None, library_name: str = "") -> None:
        assert library_name == "graph_metanetworks"
        self.token = token

    def create_repo(self, name: str, *, repo_type: str, private: bool | None, exist_ok: bool) -> str:
        if name.startswith("stranger/"):
            raise hub.errors.HfHubHTTPError("403: you may not write here", response=Response())
        if name.startswith("offline/"):
            raise Disconnected("nobody answers")
        return f"https://hub/{'datasets/' * (repo_type == 'dataset')}{name}"

    def upload_folder(self, *, repo_id: str, folder_path: str, repo_type: str, commit_message: str) -> None:
        assert commit_message
        lay_out(Path(folder_path), self.cache, repo_id, repo_type)


class Disconnected(Exception):
    """As the errors of an HTTP client, which are no OSError."""


class Response:
    headers: dict[str, str] = {}  # noqa: RUF012
    request = None


def lay_out(folder: Path, cache: Path, name: str, kind: str) -> None:
    """Copy files into a cache as the hub's client does: blobs, and snapshots that link to them."""
    place = cache / f"{kind}s--{name.replace('/', '--')}"
    shutil.rmtree(place, ignore_errors=True)
    for part in ("blobs", "refs", f"snapshots/{REVISION}"):
        (place / part).mkdir(parents=True)
    (place / "refs" / "main").write_text(REVISION)
    for number, file in enumerate(sorted(folder.iterdir())):
        shutil.copyfile(file, place / "blobs" / str(number))
        (place / "snapshots" / REVISION / file.name).symlink_to(f"../../blobs/{number}")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The real download of the client, without a connection, from a cache of our own."""
    monkeypatch.setattr(hub, "HfApi", StandIn)
    monkeypatch.setattr(StandIn, "cache", tmp_path / "hub", raising=False)
    monkeypatch.setattr(hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(hub.constants, "HF_HUB_OFFLINE", True)
    return tmp_path / "hub"


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> gmn.Zoo:
    return scaled_zoo(tmp_path_factory.mktemp("sharing") / "my-zoo", 24)


@pytest.fixture(scope="module")
def runner(zoo: gmn.Zoo, tmp_path_factory: pytest.TempPathFactory) -> Runner:
    folder = tmp_path_factory.mktemp("run") / "gmn"
    quick: dict[str, Any] = {"setting": "50", "steps": 4, "rounds": 2, "batch_size": 4, "seed": 3}
    gmn.train("accuracy", zoo, out=folder, quiet=True, **quick)
    return gmn.load(folder)


def uploaded(cache: Path, name: str, kind: str = "model") -> Path:
    return cache / f"{kind}s--{name.replace('/', '--')}" / "snapshots" / REVISION


def test_a_run_comes_back(runner: Runner, zoo: gmn.Zoo, cache: Path) -> None:
    assert runner.push_to_hub("someone/predictor") == "https://hub/someone/predictor"
    again = gmn.load("someone/predictor")
    assert again(zoo, quiet=True) == runner(zoo, quiet=True)
    assert torch.equal(Runner.from_pretrained("someone/predictor").embed(zoo), runner.embed(zoo))
    files = {file.name for file in uploaded(cache, "someone/predictor").iterdir()}
    assert files == {
        *("README.md", "run.json", "model.safetensors", "reference.safetensors", "predictions.csv"),
        "curve.csv",
    }
    assert str(zoo.folder.parent) not in (uploaded(cache, "someone/predictor") / "run.json").read_text()


def test_the_card_of_a_run(runner: Runner, cache: Path) -> None:
    runner.push_to_hub("someone/predictor")
    card = (uploaded(cache, "someone/predictor") / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: graph_metanetworks\n") and "# predictor" in card
    assert "Predict accuracy from weights (`accuracy`)" in card and "my-zoo: 24 networks" in card
    score = runner.run.scores["test"]["r2"]
    assert f"| test | {runner.run.result['sizes']['test']} | {score:.3f} |" in card  # pyright: ignore
    assert "| seeds | 3 (run), 0 (zoo) |" in card
    expected = "gmn train accuracy my-zoo --out run --steps 4 --rounds 2 --batch-size 4 --seed 3 --setting 50"
    assert expected in card


def test_code_of_strangers_is_not_run(runner: Runner, tmp_path: Path, cache: Path) -> None:
    runner.push_to_hub("someone/predictor")
    place = tmp_path / "copy"
    shutil.copytree(uploaded(cache, "someone/predictor"), place)
    (place / "evil.py").write_text("raise SystemExit('it ran')\n")
    run = json.loads((place / "run.json").read_text())
    run["task"] = f"{place / 'evil.py'}:Task"
    (place / "run.json").write_text(json.dumps(run))
    lay_out(place, cache, "someone/evil", "model")
    with pytest.raises(TaskError, match="needs code of its author"):
        gmn.load("someone/evil")


def test_a_metanetwork_comes_back(cache: Path) -> None:
    net = gmn.GraphMetanetwork(16, 2, out=3, blocks="matrix-product")
    net.push_to_hub("someone/net")
    again = gmn.GraphMetanetwork.from_pretrained("someone/net")
    assert all(torch.equal(value, again.state_dict()[key]) for key, value in net.state_dict().items())
    card = (uploaded(cache, "someone/net") / "README.md").read_text()
    assert f"{net.num_parameters:,} parameters" in card and "| blocks | `'matrix-product'` |" in card


def test_a_zoo_is_a_data_set(zoo: gmn.Zoo, cache: Path) -> None:
    result = CliRunner().invoke(app, ["zoo", "push", str(zoo.folder), "someone/zoo"])
    assert result.exit_code == 0 and "https://hub/datasets/someone/zoo" in result.output
    with pytest.raises(gmn.ZooError, match="needs code of its author, the recipe support"):
        gmn.zoo.from_hub("someone/zoo")
    again = gmn.zoo.from_hub("someone/zoo", recipe=zoo.recipe)
    assert again.table.equals(zoo.table)
    for name, value in zoo[5].state_dict.items():
        assert torch.equal(again[5].state_dict[name], value)
    place = uploaded(cache, "someone/zoo", "dataset")
    card = (place / "README.md").read_text()
    assert 'data_files: "table-*.parquet"' in card and "| networks | 24 |" in card
    assert "![Distribution over the networks](histogram.png)" in card and "`test_accuracy`" in card
    assert (place / "histogram.png").read_bytes().startswith(b"\x89PNG")


def test_a_zoo_of_a_folder_is_shared_without_paths_and_code(tmp_path: Path, cache: Path) -> None:
    folder, words = write_folder(tmp_path, 3), {"labels": tmp_path / "results.csv", "quiet": True}
    build = f"{tmp_path / 'models.py'}:build"
    zoo = gmn.Zoo.from_folder(folder, build=build, out=tmp_path / "zoo", **words)
    gmn.zoo.push_to_hub(zoo, "someone/mine")
    place = uploaded(cache, "someone/mine", "dataset")
    assert all(str(tmp_path) not in (place / name).read_text() for name in ("zoo.json", "README.md"))
    with pytest.raises(ZooError, match=r"builds the networks, models.py:build: .* from_hub\(name, build="):
        gmn.zoo.from_hub("someone/mine")
    again = gmn.zoo.from_hub("someone/mine", build=build)
    again[2].build().load_state_dict(zoo[2].state_dict)
    with pytest.raises(ZooError, match="without --link"):
        gmn.zoo.push_to_hub(gmn.Zoo.from_folder(folder, build=build, link=True, **words), "someone/mine")


def test_what_cannot_be_shared(runner: Runner, zoo: gmn.Zoo) -> None:
    with pytest.raises(StorageError, match="write user/name"):
        runner.push_to_hub("predictor")
    with pytest.raises(StorageError, match=r"cannot upload to stranger/x.*hf auth login"):
        runner.push_to_hub("stranger/x")
    with pytest.raises(StorageError, match=r"offline/x .*nobody answers\. Check the connection"):
        runner.push_to_hub("offline/x")
    with pytest.raises(TaskError, match=r"no folder someone/nothing, and it is no run of the hub"):
        gmn.load("someone/nothing")
    with pytest.raises(gmn.ZooError, match="cannot download someone/nothing"):
        gmn.zoo.from_hub("someone/nothing")
