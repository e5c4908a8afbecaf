"""Checkpoints on the command line: trace, symmetry, zoo import, train and predict, as a user types them."""

import csv
import json
import pickle
import shutil
import sys
from io import StringIO
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch
from torch import nn

from graph_metanetworks.cli import parts
from graph_metanetworks.zoo import Zoo
from support.checkpoint_folder import write_folder
from support.command_line import fails, succeeds

QUICK = ("--setting", 50, "--steps", 4, "--batch-size", 8, "--quiet")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of checkpoints, a zoo made of it, and a run on the zoo."""
    place = tmp_path_factory.mktemp("own")
    write_folder(place, 24)
    words = ("--network", f"{place / 'models.py'}:build", "--labels", place / "results.csv", "--quiet")
    result = succeeds("zoo", "import", "folder", place / "checkpoints", *words, "--out", place / "zoo")
    assert "has 24 networks" in result.output and "left out" not in result.output
    output = succeeds("train", "accuracy", place / "zoo", "--out", place / "run", *QUICK).output
    assert "validation" in output  # 4 steps are fewer than the 20 rounds by default
    return place


def test_the_zoo_is_like_any_other(place: Path) -> None:
    assert "1 shard with 24 networks: all intact" in succeeds("zoo", "check", place / "zoo").output
    output = succeeds("zoo", "info", place / "zoo").output
    assert all(family in output for family in ("mlp", "deep", "gru")) and "models.py:build" in output


def test_what_is_left_out_is_listed(place: Path, tmp_path: Path) -> None:
    words = ("zoo", "import", "folder", place / "checkpoints", "--out", tmp_path / "zoo", "--link", "--quiet")
    result = succeeds(*words, "--network", f"{place / 'models.py'}:mlp", "--labels", place / "results.csv")
    assert "left out 16 files of 24" in result.stderr and "and 6 more" in result.stderr
    assert "more/run02.ckpt: does not fit Sequential: 4 of" in result.stderr
    assert len(Zoo.open(tmp_path / "zoo")) == 8
    words = ("zoo", "import", "folder", place / "checkpoints", "--out", tmp_path / "none", "--quiet")
    assert "none of the 24 checkpoints" in fails(*words)
    assert "as --network my_model.py:build" in fails(*words)
    assert not (tmp_path / "none").exists()  # the corrected command may use the same folder


def test_a_mixed_folder_is_predicted(place: Path, tmp_path: Path) -> None:
    words = ("predict", place / "run", place / "checkpoints", "--quiet")
    build = ("--network", f"{place / 'models.py'}:build", "--labels", place / "results.csv")
    found = json.loads(succeeds(*words, *build, "--json", "-").stdout)
    assert len(found) == 24
    (tmp_path / "text.pt").write_text("hello")
    torch.save(nn.Linear(3, 3).state_dict(), tmp_path / "other.pt")
    own = ("--network", f"{place / 'models.py'}:mlp", "--kwarg", "width=3")
    result = succeeds(*words, tmp_path, *own, "--csv", "-")
    rows = list(csv.DictReader(StringIO(result.stdout)))
    same = {row["name"]: row["accuracy"] for row in found}
    assert rows and all(float(row["accuracy"]) == pytest.approx(same[row["name"]]) for row in rows)
    assert f"left out {26 - len(rows)} checkpoints of 26" in result.stderr
    assert not Path("-").exists()
    assert "no column of" in fails("predict", place / "run", tmp_path, *build)  # none of them is in the table


def test_a_mixed_folder_is_embedded_and_searched(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ("embed", place / "run", place / "zoo", "--quiet")
    succeeds(*words, "--out", "zoo.parquet", "--plot", "map.svg")
    assert "test accuracy" in Path("map.svg").read_text()
    folder = shutil.copytree(place / "checkpoints", tmp_path / "checkpoints")
    (folder / "text.pt").write_text("hello")
    own = ("--network", f"{place / 'models.py'}:build", "--labels", place / "results.csv", "--quiet")
    words = ("embed", place / "run", "checkpoints", *own)
    result = succeeds(*words, "--out", "one.parquet", "--plot", "own.svg")
    assert "left out 1 checkpoint of 25" in result.stderr and "no row for it" in result.stderr
    assert "test accuracy" in Path("own.svg").read_text()  # the labels of the table
    zoo, one = (pq.read_table(file) for file in ("zoo.parquet", "one.parquet"))
    assert sorted(zoo["embedding"].to_pylist()) == sorted(one["embedding"].to_pylist())
    assert one["architecture"].null_count == 0

    monkeypatch.setattr(parts, "share_out", _elsewhere)
    succeeds(*words, "--out", "many.parquet")
    assert pq.ParquetFile("many.parquet").num_row_groups > 2
    assert pq.read_table("many.parquet").equals(one)
    words = ("search", place / "run", folder / "run00.safetensors", "checkpoints", *own)
    result = succeeds(*words, "--top", 2, "--json", "-")
    first, second = json.loads(result.stdout)
    assert first["network"] == "checkpoints/run00.safetensors" and first["distance"] == 0
    assert second["distance"] > 0 and "left out 1 checkpoint of 25" in result.stderr


def _elsewhere(work, cut, *, ray):
    """Share out as if to processes that have not imported the user's file."""
    for part in cut(2):
        sent = pickle.dumps((work, part))
        sys.modules.pop("models", None)
        work, part = pickle.loads(sent)
        yield pickle.loads(pickle.dumps(work(part)))


def test_a_hugging_face_folder_is_embedded(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(vocab_size=20, n_positions=16, n_embd=8, n_layer=1, n_head=2)
    transformers.GPT2LMHeadModel(config).save_pretrained(tmp_path / "tiny")
    succeeds("embed", "untrained", tmp_path / "tiny", "--out", tmp_path / "e.parquet", "--quiet")
    assert pq.read_table(tmp_path / "e.parquet")["network"].to_pylist() == [str(tmp_path / "tiny")]


def test_checkpoints_are_traced(place: Path, tmp_path: Path) -> None:
    file = place / "checkpoints" / "run01.pt"
    words = (f"{place / 'models.py'}:deep", "--kwarg", "width=4", "--checkpoint", file)
    for command in ("trace", "symmetry"):
        result = succeeds(command, *words)
        assert "under 'model_state'; stripped 'module.'" in " ".join(result.stderr.split())
        assert "no key 'ema'" in fails(command, *words, "--key", "ema")
    torch.save(torch.load(file)["model_state"] | {"extra": torch.ones(1)}, tmp_path / "more.pt")
    words = (*words[:-1], tmp_path / "more.pt")
    assert "--ignore-extra" in fails("trace", *words)
    assert "dropped extra" in " ".join(succeeds("trace", *words, "--ignore-extra").stderr.split())
    assert "as the first argument" in fails("trace", "--checkpoint", file)
    assert "name a network" in fails("trace")


def test_a_hugging_face_folder_is_traced(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(vocab_size=20, n_positions=16, n_embd=8, n_layer=1, n_head=2)
    transformers.GPT2LMHeadModel(config).save_pretrained(tmp_path / "tiny")
    output = succeeds("trace", "--checkpoint", tmp_path / "tiny").output
    assert "GPT2LMHeadModel" in output and "a Hugging Face folder" in output
    assert "GPT2LMHeadModel" in succeeds("symmetry", tmp_path / "tiny").output


def test_symmetry_as_json(tmp_path: Path) -> None:
    words = ("symmetry", "torch.nn:TransformerEncoderLayer", "--arg", 8, "--arg", 2, "--kwarg", "dropout=0.0")
    data = json.loads(succeeds(*words, "--json", "-").stdout)
    heads = next(own for own in data["permuted"] if own["kind"] == "heads")
    inner = [own for own in data["permuted"] if own["kind"] == "within heads"]
    assert inner and all(data["permuted"][own["within"][0]] == heads for own in inner)
    assert data["log_order"] > 0 and data["fixed"] and {"scales", "signs", "phases"} < data["scaling"].keys()
    succeeds(*words, "--json", tmp_path / "s.json")
    assert json.loads((tmp_path / "s.json").read_text()) == data


def test_files_that_cannot_be_written_are_refused_first(tmp_path: Path) -> None:
    linear = ("torch.nn:Linear", "--arg", 3, "--arg", 2)
    for words in (
        ("trace", *linear, "--plot"),
        ("trace", *linear, "--json"),
        ("symmetry", *linear, "--json"),
    ):
        assert "there is no folder" in fails(*words, tmp_path / "no" / "such.svg")


def test_the_detail_of_a_picture(tmp_path: Path) -> None:
    wide = nn.Linear(200, 200)
    torch.save(wide.state_dict(), tmp_path / "wide.pt")
    words = ("trace", "torch.nn:Linear", "--arg", 200, "--arg", 200, "--plot", tmp_path / "a.svg")
    result = succeeds(*words, "--checkpoint", tmp_path / "wide.pt")
    assert "Use --detail neurons to draw all 401 nodes" in " ".join(result.output.split())
    small = ("trace", "torch.nn:Linear", "--arg", 3, "--arg", 2, "--plot")
    torch.save(nn.Linear(3, 2).state_dict(), tmp_path / "small.pt")
    weights = ("--checkpoint", tmp_path / "small.pt")
    assert "--detail" not in succeeds(*small, tmp_path / "b.svg", *weights, "--detail", "neurons").output
    assert "positive" in (tmp_path / "b.svg").read_text()
    assert (
        "The picture shows groups"
        in succeeds(*small, tmp_path / "c.svg", *weights, "--detail", "groups").output
    )


def test_zoos_are_trained_on_the_cpu(tmp_path: Path) -> None:
    words = ("zoo", "build", "diverse", "--count", 2, "--out", tmp_path / "zoo", "--device", "cuda")
    assert "trained on the CPU only" in fails(*words)
