"""A folder of checkpoints becomes a zoo: mixed architectures, labels, links, what is left out, resuming."""

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import graph_metanetworks as gmn
from graph_metanetworks.errors import ZooError
from graph_metanetworks.experiments.accuracy.rivals import config_columns
from graph_metanetworks.tasks.traced_zoo import TracedZoo
from graph_metanetworks.zoo.check import check
from graph_metanetworks.zoo.from_folder import sources
from graph_metanetworks.zoo.from_folder.importer import _Importer
from graph_metanetworks.zoo.from_folder.labels import Labels
from graph_metanetworks.zoo.plan import Range
from support.checkpoint_folder import write_folder

COUNT = 12


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("own")
    write_folder(place, COUNT)
    return place


def zoo_of(place: Path, out: Path | None = None, **options) -> gmn.Zoo:
    known = {"build": f"{place / 'models.py'}:build", "labels": place / "results.csv", "quiet": True}
    return gmn.Zoo.from_folder(place / "checkpoints", out=out, **known | options)


def files_in(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


@pytest.mark.parametrize("link", [False, True])
def test_every_file_is_a_network(place: Path, tmp_path: Path, link: bool) -> None:
    before = files_in(place / "checkpoints")
    zoo_of(place, tmp_path / "zoo", link=link)
    zoo = gmn.Zoo.open(tmp_path / "zoo", verify=True)  # without what the first call knew
    assert len(zoo) == COUNT and not zoo.left_out
    assert set(zoo.table["family"].to_pylist()) == {"mlp", "deep", "gru"}
    assert zoo.table["test_accuracy"].null_count == 0 and zoo[0].metrics["width"] in (3, 4)
    for network in zoo:
        file = place / "checkpoints" / network.config.file
        module = network.build()
        saved = gmn.read_checkpoint(file, module)
        assert all(torch.equal(module.state_dict()[name], saved[name]) for name in saved)
    traced = TracedZoo(zoo)
    assert len(traced.graphs) == 6 and len(traced.batch(range(COUNT))) == COUNT
    assert files_in(place / "checkpoints") == before
    assert (zoo.num_bytes < sum(map(len, before.values()))) or not link


def test_file_names_are_no_hyper_parameters(place: Path) -> None:
    assert config_columns(zoo_of(place).table) == ["network"]  # and no column without values


def test_without_a_place_the_files_are_referenced(place: Path) -> None:
    zoo = zoo_of(place)
    assert len(zoo) == COUNT and zoo.description.options["link"]
    assert zoo.folder.is_dir() and not any(path.name == "zoo.json" for path in place.rglob("*"))


def test_functions_and_mappings_build(place: Path, tmp_path: Path) -> None:
    space: dict = {}
    exec((place / "models.py").read_text(), space)
    builders = {name: lambda row, name=name: space["build"](name, row["width"]) for name in ("mlp", "deep")}
    zoo = zoo_of(place, tmp_path / "a", build=builders)
    assert len(zoo) == 8 and zoo[0].build() and len(zoo.left_out) == 4
    assert "no builder of 'gru'" in zoo.left_out[0].reason
    with pytest.raises(ZooError, match="cannot be found again"):
        gmn.Zoo.open(tmp_path / "a")[0].build()

    def by_shapes(path, config, shapes):
        assert path.is_file() and isinstance(config, dict)
        return nn.Sequential(
            nn.Linear(2, shapes["0.bias"][0]), nn.ReLU(), nn.Linear(shapes["2.weight"][1], 3)
        )

    zoo = zoo_of(place, tmp_path / "b", build=by_shapes, labels=None)
    names = files_in(place / "checkpoints")
    assert {one.file for one in zoo.left_out} == {p for p in names if "safetensors" not in p}
    assert zoo[0].build().state_dict().keys() == zoo[0].state_dict.keys()
    zoo = zoo_of(
        place, tmp_path / "c", build=str(place / "models.py")
    )  # a column names a function of the file
    assert len(zoo) == 8 and any("no 'gru'" in one.reason for one in zoo.left_out)


def test_what_does_not_fit_is_left_out(place: Path, tmp_path: Path) -> None:
    shutil.copytree(place, tmp_path, dirs_exist_ok=True)
    folder = tmp_path / "checkpoints"
    (folder / "run00.safetensors").write_text("hello")
    weights = load_file(folder / "run03.safetensors")
    save_file(weights | {"0.weight": torch.zeros(9, 2)}, folder / "run03.safetensors")
    torch.save(nn.Linear(2, 2), folder / "run01.pt")
    torch.save(weights, folder / "unlabelled.pt")
    zoo = zoo_of(tmp_path, tmp_path / "zoo")
    assert len(zoo) == COUNT - 3
    reasons = {one.file: one.reason for one in zoo.left_out}
    assert "is a text file" in reasons["run00.safetensors"] and "any code" in reasons["run01.pt"]
    assert "another shape" in reasons["run03.safetensors"] and "no row" in reasons["unlabelled.pt"]
    assert not check(tmp_path / "zoo").problems and not check(tmp_path / "zoo").unfinished
    lines = (tmp_path / "zoo" / sources.LEFT_OUT).read_text().splitlines()
    assert len(lines) == 4 and json.loads(lines[0])["reason"]


def test_networks_that_cannot_be_traced_are_left_out(place: Path, tmp_path: Path) -> None:
    def build(architecture, width):
        network = nn.Sequential(nn.Linear(2, width), nn.ReLU(), nn.Linear(width, 3))
        return network, torch.zeros(1, 5 if width == 3 else 2)

    zoo = zoo_of(place, tmp_path / "zoo", build=build, ignore_extra=True)
    assert len(zoo) == 2 and sum("cannot be traced on 1x5" in one.reason for one in zoo.left_out) == 4
    with pytest.raises(ZooError, match="none of the 12 checkpoints"):
        zoo_of(place, tmp_path / "none", build=lambda: nn.Linear(77, 1))


def test_the_most_common_problem_comes_first(place: Path, tmp_path: Path) -> None:
    shutil.copytree(place / "checkpoints", tmp_path / "checkpoints")
    (tmp_path / "checkpoints" / "a.pt").write_text("hello")
    with pytest.raises(ZooError, match=r"can be read:\n  \S+: <lambda> needs depth, size"):
        zoo_of(tmp_path, tmp_path / "zoo", build=lambda depth, size: nn.Linear(depth, size), labels=None)
    assert not (tmp_path / "zoo").exists()  # it may be tried again


def test_an_interrupted_import_resumes(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graph_metanetworks.zoo.from_folder.importer.SHARD", 4)
    whole = zoo_of(place, tmp_path / "whole")
    assert whole.num_shards == 3
    read = _Importer._read

    def stop(self, file):
        if "run07" in file:
            raise KeyboardInterrupt
        return read(self, file)

    monkeypatch.setattr(_Importer, "_read", stop)
    with pytest.raises(KeyboardInterrupt):
        zoo_of(place, tmp_path / "zoo")
    seen = []
    monkeypatch.setattr(_Importer, "_read", lambda self, file: seen.append(file) or read(self, file))
    zoo = zoo_of(place, tmp_path / "zoo")
    assert len(zoo) == COUNT and 0 < len(seen) < COUNT
    ours, theirs = files_in(tmp_path / "zoo"), files_in(tmp_path / "whole")
    assert all(
        ours[name] == theirs[name] for name in theirs if name.startswith(("weights", "table", "manif"))
    )
    seen.clear()
    zoo_of(place, tmp_path / "zoo")
    assert not seen
    with pytest.raises(ZooError, match="holds a different zoo"):
        zoo_of(place, tmp_path / "zoo", labels=None)


def test_new_files_are_added(tmp_path: Path) -> None:
    options = {"labels": None, "build": lambda shapes: nn.Sequential(nn.Linear(2, shapes["0.bias"][0]))}
    folder = tmp_path / "own"
    folder.mkdir()
    for name in ("b", "d"):
        save_file(nn.Sequential(nn.Linear(2, 3)).state_dict(), folder / f"{name}.safetensors")
    zoo = gmn.Zoo.from_folder(folder, out=tmp_path / "zoo", quiet=True, **options)
    save_file(nn.Sequential(nn.Linear(2, 5)).state_dict(), folder / "a.safetensors")
    zoo = gmn.Zoo.from_folder(folder, out=tmp_path / "zoo", quiet=True, **options)
    assert zoo.table["file"].to_pylist() == ["b.safetensors", "d.safetensors", "a.safetensors"]


def test_linked_files_that_change_are_noticed(place: Path, tmp_path: Path) -> None:
    shutil.copytree(place, tmp_path, dirs_exist_ok=True)
    zoo = zoo_of(tmp_path, tmp_path / "zoo", link=True)
    first = next(network for network in zoo if network.config.file == "run00.safetensors")
    path = tmp_path / "checkpoints" / "run00.safetensors"
    path.touch()  # another time, but the same content
    assert first.state_dict and not check(tmp_path / "zoo").problems
    weights = load_file(path)
    save_file({name: value + 1 for name, value in weights.items()}, path)
    with pytest.raises(ZooError, match=r"run00\.safetensors: changed since it was imported"):
        _ = first.state_dict
    assert ["changed" in problem for problem in check(tmp_path / "zoo").problems] == [True]
    zoo_of(tmp_path, tmp_path / "zoo", link=True)  # made again
    assert not check(tmp_path / "zoo").problems
    path.unlink()
    with pytest.raises(ZooError, match="missing, and the zoo only references it"):
        _ = [network.state_dict for network in gmn.Zoo.open(tmp_path / "zoo")]


def test_hugging_face_folders_need_no_builder(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    for number, size in enumerate((8, 12)):
        config = transformers.BertConfig(
            vocab_size=20, hidden_size=size, num_hidden_layers=1, num_attention_heads=2, intermediate_size=12
        )
        transformers.BertModel(config).save_pretrained(tmp_path / "models" / f"bert{number}")
    labels = {"bert0": 0.25, "bert1": 0.75}
    gmn.Zoo.from_folder(tmp_path / "models", labels=labels, out=tmp_path / "zoo", quiet=True)
    zoo = gmn.Zoo.open(tmp_path / "zoo")
    assert zoo.table["label"].to_pylist() == [0.25, 0.75]
    assert [graph.num_parameters for graph in TracedZoo(zoo).graphs] == sorted(zoo.weight_counts())


# ------------------------------------------------------------------ tables


FILES = ["a/1.pt", "a/2.pt", "b/best.pt"]


@pytest.mark.parametrize("form", ["csv", "tsv", "parquet", "json", "jsonl", "table", "frame", "mapping"])
def test_forms_of_tables(form: str, tmp_path: Path) -> None:
    rows = [{"run": "1", "acc": 0.5}, {"run": "a/2.pt", "acc": 0.75}, {"run": "b", "acc": 1.0}]
    path = tmp_path / f"t.{form}"
    if form in ("csv", "tsv"):
        sep = "," if form == "csv" else "\t"
        path.write_text("\n".join([sep.join(rows[0]), *(sep.join(map(str, row.values())) for row in rows)]))
    if form == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    if form == "json":
        path.write_text(json.dumps(rows))
    if form == "jsonl":
        path.write_text("\n".join(map(json.dumps, rows)))
    given = {
        "table": pa.Table.from_pylist(rows),
        "frame": pa.Table.from_pylist(rows).to_pandas() if form == "frame" else None,
        "mapping": {row["run"]: {"acc": row["acc"]} for row in rows},
    }
    found = Labels.read(given.get(form, path)).by_file(FILES)
    assert {file: row["acc"] for file, row in found.items()} == {
        "a/1.pt": 0.5,
        "a/2.pt": 0.75,
        "b/best.pt": 1.0,
    }


def test_tables_that_do_not_fit(tmp_path: Path) -> None:
    with pytest.raises(
        ZooError, match=r"no column .* names the checkpoints, such as a/1\.pt; its columns are x"
    ):
        Labels.read([{"x": "other"}]).by_file(FILES)
    with pytest.raises(ZooError, match=r"several rows for a/1\.pt in the column 'x'.*--file-column"):
        Labels.read([{"x": "a/1.pt"}, {"x": "1"}]).by_file(FILES)
    versions = [{"version": 1, "x": file} for file in FILES]  # 1 is also the stem of a file
    assert len(Labels.read(versions).by_file(FILES)) == len(FILES)
    with pytest.raises(ZooError, match="there is no table"):
        Labels.read(tmp_path / "none.csv")
    (tmp_path / "a.txt").write_text("")
    with pytest.raises(ZooError, match=r"must end in \.csv"):
        Labels.read(tmp_path / "a.txt")
    row = Labels.read([{"": 0, "index": 4, "x": "1", "when": None}]).by_file(FILES, reserved=("index",))
    assert row == {"a/1.pt": {"index_": 4}}


def test_shards_are_small(monkeypatch: pytest.MonkeyPatch) -> None:
    files = [sources.SourceFile(str(n), size) for n, size in enumerate([60, 60, 200, 10, 10, 10, 10])]
    monkeypatch.setattr(sources, "BYTES", 130)
    plans = sources.plan_shards(files, [Range(0, 5, 3), Range(5, 7, 3)])
    assert [plan.populations[0] for plan in plans] == [(0, 1), (2,), (3, 4), (5, 6)]
