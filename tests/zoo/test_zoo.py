"""Opened zoos are sequences that read lazily."""

import pickle
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import graph_metanetworks as gmn
from graph_metanetworks.errors import ZooError
from graph_metanetworks.zoo import Zoo, build
from graph_metanetworks.zoo.recipes.inrs import SineInrs
from support.zoo_recipes import Config, Regressors

COUNT = 50


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(Regressors(), COUNT, tmp_path_factory.mktemp("zoo"), workers=1, quiet=True).folder


@pytest.fixture
def zoo(folder: Path) -> Zoo:
    return gmn.Zoo.open(folder)


def indices(zoo: Zoo) -> list[int]:
    return [network.index for network in zoo]


def test_the_promised_names(zoo: Zoo) -> None:
    network = zoo[0]
    assert network.index == 0
    assert isinstance(network.config, Config) and isinstance(network.config.hidden, tuple)
    assert network.metrics.keys() == {"test_accuracy", "loss", "diverged"}
    assert list(network.build().state_dict()) == list(network.state_dict)
    assert zoo.table.column_names == [
        "index",
        "family",
        "hidden",
        "rate",
        "test_accuracy",
        "loss",
        "diverged",
    ]


def test_a_zoo_is_shown_in_a_few_lines(zoo: Zoo, tmp_path: Path) -> None:
    shallow = len(zoo.filter(pc.field("family") == "shallow"))
    assert repr(zoo).splitlines() == [
        f"Zoo('{zoo.folder}')",
        "  recipe: support.zoo_recipes:Regressors",
        "  networks: 50",
        f"  families: deep ({50 - shallow}), shallow ({shallow})",
    ]
    assert "networks: 3 of 50" in repr(zoo[:3])
    sines = build(SineInrs(points=4, steps=1), 2, tmp_path, workers=1, quiet=True)
    assert repr(sines).splitlines()[-1] == "  values per network: 1,153"


def test_build_gives_the_trained_network(zoo: Zoo) -> None:
    for network in zoo[:5]:
        built = network.build()
        assert not built.training
        for name, values in built.state_dict().items():
            assert torch.equal(values, network.state_dict[name])


def test_the_table_fits_the_networks(zoo: Zoo) -> None:
    rows = zoo.table.to_pylist()
    assert [row["index"] for row in rows] == indices(zoo)
    for row, network in zip(rows, zoo, strict=True):
        assert {name: row[name] for name in network.metrics} == network.metrics
        assert (row["family"], tuple(row["hidden"]), row["rate"]) == tuple(vars(network.config).values())


@given(st.slices(COUNT))
def test_slices(folder: Path, part: slice) -> None:
    zoo = Zoo.open(folder)
    assert indices(zoo[part]) == list(range(COUNT))[part]
    assert zoo[part].table["index"].to_pylist() == list(range(COUNT))[part]
    assert indices(zoo[5:40][part]) == list(range(5, 40))[part]


def test_positions_and_masks(zoo: Zoo) -> None:
    assert indices(zoo[[3, 1, 3]]) == [3, 1, 3]
    assert indices(zoo[torch.tensor([4, 0])]) == [4, 0]
    assert indices(zoo[np.arange(COUNT) % 10 == 1]) == [1, 11, 21, 31, 41]
    assert zoo[-1].index == COUNT - 1 and zoo[np.int64(2)].index == 2
    with pytest.raises(IndexError):
        zoo[COUNT]


def test_filters(zoo: Zoo) -> None:
    deep = zoo.filter(pc.field("family") == "deep")
    assert 0 < len(deep) < COUNT
    assert indices(deep) == indices(zoo.filter(lambda network: network.config.family == "deep"))
    both = deep.filter(pc.field("test_accuracy") > 0.3)
    assert indices(both) == [n.index for n in deep if n.metrics["test_accuracy"] > 0.3]
    assert len(zoo.filter(pc.field("loss") < 0)) == 0
    assert len(zoo.filter(lambda network: False)) == 0


@given(st.lists(st.floats(0, 0.25), max_size=4), st.integers(0, 9))
def test_fractions(folder: Path, parts: list[float], seed: int) -> None:
    zoo = Zoo.open(folder)
    split = zoo.split(parts, seed=seed)
    chosen = [index for part in split for index in indices(part)]
    assert len(set(chosen)) == len(chosen) and len(split) == len(parts)
    for part, fraction in zip(split, parts, strict=True):
        assert abs(len(part) - fraction * COUNT) <= 1


def test_splits(zoo: Zoo) -> None:
    train, validation, test = zoo.split([0.6, 0.2, 0.2], seed=1)
    assert [len(train), len(validation), len(test)] == [30, 10, 10]
    assert sorted(indices(train) + indices(validation) + indices(test)) == list(range(COUNT))
    assert indices(zoo.split([0.6], seed=1)[0]) == indices(train) != indices(zoo.split([0.6], seed=2)[0])
    assert [len(part) for part in zoo.split([7, 3])] == [7, 3]
    with pytest.raises(ZooError, match="asks for 60 networks, but the zoo has 50"):
        zoo.split([0.6, 0.6])
    with pytest.raises(ZooError, match="cannot be negative"):
        zoo.split([-1])
    with pytest.raises(ZooError, match=r"split takes a list of parts, such as \[0.8, 0.2\], not 0.5"):
        zoo.split(0.5)  # pyright: ignore[reportArgumentType]


def test_conditions_on_what_is_not_there(zoo: Zoo) -> None:
    for condition in (pc.field("nope") > 1, pc.field("family") > 1, pc.field("rate")):
        with pytest.raises(ZooError, match=r"not a valid condition .* The columns are index, family"):
            zoo.filter(condition)


def test_opening_reads_neither_weights_nor_tables(zoo: Zoo, tmp_path: Path) -> None:
    for name in ("zoo.json", "manifest.jsonl"):
        (tmp_path / name).write_bytes((zoo.folder / name).read_bytes())
    opened = Zoo.open(tmp_path)
    assert indices(opened) == list(range(COUNT))
    with pytest.raises(ZooError, match=r"weights-0000\d.safetensors cannot be read"):
        _ = opened[0].state_dict
    with pytest.raises(ZooError, match=r"table-0000\d.parquet cannot be read"):
        _ = opened.table


def test_only_shards_that_are_used_are_opened(zoo: Zoo) -> None:
    _ = zoo[0].state_dict
    assert len(zoo._store._weights) == 1


def test_zoos_can_be_sent_to_other_processes(zoo: Zoo) -> None:
    _ = zoo[3].state_dict
    sent = pickle.loads(pickle.dumps(zoo[3:9]))
    assert indices(sent) == indices(zoo[3:9])
    assert torch.equal(sent[0].state_dict["0.weight"], zoo[3].state_dict["0.weight"])


def test_a_data_loader(zoo: Zoo) -> None:
    loader = torch.utils.data.DataLoader(zoo, batch_size=8, shuffle=True, collate_fn=list)  # pyright: ignore
    assert sorted(network.index for batch in loader for network in batch) == list(range(COUNT))


def test_networks_go_into_a_metanetwork(zoo: Zoo) -> None:
    batch = gmn.collate([(gmn.trace(n.build(), torch.randn(2, 3)), n.state_dict) for n in zoo[:4]])
    assert gmn.GraphMetanetwork(hidden=8, layers=1, out=1)(batch).shape == (4, 1)


def test_a_recipe_that_is_gone(tmp_path: Path) -> None:
    build(Regressors(), 3, tmp_path, workers=1, quiet=True, reference="no_such_module:Recipe")
    zoo = Zoo.open(tmp_path)
    assert zoo[0].metrics and zoo[0].state_dict and len(zoo.table) == 3
    with pytest.raises(
        ZooError, match=r"no_such_module:Recipe cannot be imported.*Zoo.open\(folder, recipe="
    ):
        zoo[0].build()
    assert Zoo.open(tmp_path, recipe=Regressors())[0].build()


def test_no_zoo(tmp_path: Path) -> None:
    with pytest.raises(ZooError, match=r"there is no zoo in .*zoo.json is missing"):
        Zoo.open(tmp_path)


def test_a_newer_format(folder: Path, tmp_path: Path) -> None:
    text = (folder / "zoo.json").read_text()
    (tmp_path / "zoo.json").write_text(text.replace('"format": 1', '"format": 2'))
    with pytest.raises(ZooError, match=r"has format 2.*Update the package"):
        Zoo.open(tmp_path)
