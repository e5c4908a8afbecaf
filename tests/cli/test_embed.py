"""gmn embed and gmn search: what a user types, and what is written."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import save_file

import graph_metanetworks as gmn
from graph_metanetworks.cli import parts
from graph_metanetworks.tasks.embedding_file import embeddings_of
from support.command_line import fails, run, succeeds
from support.scaled_networks import scaled_zoo
from support.traced import sample

NETWORK = """
from torch import nn

def build(hidden=4):
    return nn.Sequential(nn.Linear(2, hidden), nn.ReLU(), nn.Linear(hidden, 3))
"""


def passes(*args: object) -> str:
    """Return what is printed to standard output."""
    return succeeds(*args).stdout


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A zoo, a run on it, and checkpoints: a network of the zoo, permuted, and another one."""
    place = tmp_path_factory.mktemp("embed")
    zoo = scaled_zoo(place / "zoo", 40, broken=9)
    quick = {"setting": "50", "steps": 4, "rounds": 2, "batch_size": 8, "quiet": True}
    gmn.train("accuracy", zoo, out=place / "run", **quick)
    (place / "network.py").write_text(NETWORK)
    (place / "weights").mkdir()
    first = next(network for network in zoo if is_query(network))
    graph = gmn.trace(first.build(), torch.zeros(1, 2))
    save_file(sample(graph).apply(first.state_dict), place / "weights" / "permuted.safetensors")
    save_file(graph.scaling.sample().apply(first.state_dict), place / "weights" / "rescaled.safetensors")
    return place


def is_query(network) -> bool:
    finite = all(value.isfinite().all() for value in network.state_dict.values())
    return finite and network.config.family == "shallow" and network.config.hidden == 4


def target(place: Path) -> tuple[str, str, str]:
    return "--network", f"{place / 'network.py'}:build", "--quiet"


def test_a_zoo_becomes_a_table(place: Path, tmp_path: Path) -> None:
    output = run("embed", place / "run", place / "zoo", "--out", tmp_path / "e.parquet", "--quiet").output
    zoo, table = gmn.Zoo.open(place / "zoo"), pq.read_table(tmp_path / "e.parquet")
    assert f"embedded {len(table)} networks" in output and "left out" in output and len(table) < 40
    rows = zoo.table.filter(np.isin(zoo.table["index"].to_numpy(), table["index"].to_numpy()))
    assert table["test_accuracy"].equals(rows["test_accuracy"])  # in the order of the zoo, with its labels
    assert table["network"][0].as_py() == f"network {rows['index'][0]} of {place / 'zoo'}"
    with pytest.warns(UserWarning, match="left out"):
        expected = gmn.load(place / "run").embed(zoo)
    assert np.array_equal(embeddings_of(table), expected.numpy())


def test_parts_do_not_matter(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    passes("embed", "untrained", place / "zoo", "--out", tmp_path / "one.parquet", "--quiet")
    monkeypatch.setattr(parts, "LARGEST", 7)
    passes("embed", "untrained", place / "zoo", "--out", tmp_path / "many.parquet", "--quiet")
    assert pq.ParquetFile(tmp_path / "many.parquet").num_row_groups == 6  # written as they come
    assert pq.read_table(tmp_path / "one.parquet").equals(pq.read_table(tmp_path / "many.parquet"))


def test_other_formats_and_a_map(place: Path, tmp_path: Path) -> None:
    paths = (place / "zoo", place / "weights", *target(place))
    for suffix in ("parquet", "csv", "npz"):
        plot = tmp_path / f"{suffix}.svg"
        words = ("--out", tmp_path / f"e.{suffix}", "--plot", plot, "--label", "family")
        passes("embed", "untrained", *paths, *words)
        text = plot.read_text()
        assert "principal component 1" in text and "shallow" in text and "deep" in text
    table = pq.read_table(tmp_path / "e.parquet")
    assert table["network"].to_pylist()[-2:] == [str(f) for f in sorted((place / "weights").iterdir())]
    assert table["family"].null_count == 2
    with np.load(tmp_path / "e.npz") as saved:
        assert np.array_equal(saved["embedding"], embeddings_of(table))
        assert saved["network"].tolist() == table["network"].to_pylist()
    lines = (tmp_path / "e.csv").read_text().splitlines()
    assert len(lines) == len(table) + 1 and lines[0].endswith('"embedding_63"')


def test_the_map_is_coloured_by_accuracy(place: Path, tmp_path: Path) -> None:
    words = ("--out", tmp_path / "e.parquet", "--plot", tmp_path / "map.svg", "--quiet")
    passes("embed", place / "run", place / "zoo", *words)
    assert "test accuracy" in (tmp_path / "map.svg").read_text()


def test_refusals_come_before_work(place: Path, tmp_path: Path) -> None:
    zoo = place / "zoo"
    assert "must end in .parquet, .csv, .npz" in fails("embed", "untrained", zoo, "--out", tmp_path / "e.txt")
    words = ("--out", tmp_path / "e.parquet")
    assert "there is no folder" in fails("embed", "untrained", zoo, "--out", tmp_path / "no" / "e.parquet")
    assert "no --label 'colour'" in fails("embed", "untrained", zoo, *words, "--label", "colour")
    assert "holds neither a run" in fails("embed", tmp_path, zoo, *words)
    assert "name the class or function" in fails("embed", "untrained", place / "weights", *words)
    assert not list(tmp_path.iterdir())


def test_trees_cannot_embed(place: Path, tmp_path: Path) -> None:
    gmn.train("accuracy", place / "zoo", out=tmp_path / "trees", method="statnn-boosting", quiet=True)
    words = ("--out", tmp_path / "e.parquet", "--quiet")
    assert "statnn-boosting has no embedding" in fails("embed", tmp_path / "trees", place / "zoo", *words)
    assert not (tmp_path / "e.parquet").exists() and not list(tmp_path.glob("*.tmp"))


# ------------------------------------------------------------------ search


def test_a_permuted_network_is_found_at_distance_zero(place: Path) -> None:
    query = place / "weights" / "permuted.safetensors"
    found = json.loads(passes("search", place / "run", query, place / "zoo", *target(place), "--json", "-"))
    first = next(network for network in gmn.Zoo.open(place / "zoo") if is_query(network))
    assert found[0]["index"] == first.index and found[0]["distance"] == 0
    assert len(found) == 10 and found[1]["distance"] > 0
    assert [one["distance"] for one in found] == sorted(one["distance"] for one in found)


def test_a_network_of_a_zoo_is_the_query(place: Path, tmp_path: Path) -> None:
    words = ("search", "untrained", place / "zoo", place / "zoo", "--quiet")
    assert "choose the network to search for with --index" in fails(*words)
    assert "has no network 99" in fails(*words, "--index", 99)
    index = next(network for network in gmn.Zoo.open(place / "zoo") if is_query(network)).index
    printed = passes(*words, "--index", index, "--top", 3)
    assert "Nearest to network" in printed and len(printed.splitlines()) == 5
    first = printed.splitlines()[2].split()
    assert first[:2] == ["network", str(index)] and "0" in first and "shallow" in first


def test_a_file_of_embeddings_is_searched(place: Path, tmp_path: Path) -> None:
    passes("embed", place / "run", place / "zoo", "--out", tmp_path / "e.parquet", "--quiet")
    query = (place / "weights" / "permuted.safetensors", *target(place))
    words = ("search", place / "run", query[0])
    quick = passes(*words, tmp_path / "e.parquet", *query[1:])
    assert quick == passes(*words, place / "zoo", *query[1:])
    assert "by another model than untrained" in fails(
        "search", "untrained", *query[:1], tmp_path / "e.parquet", *query[1:]
    )
