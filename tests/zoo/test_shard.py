"""Shards are read back bit for bit, and equal networks give equal bytes."""

import json
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from graph_metanetworks.errors import ZooError
from graph_metanetworks.zoo.recipe import Trained
from graph_metanetworks.zoo.shard import CONFIG, METRIC, ROLE, TrainedNetwork, Weights, encode

SHAPES = st.lists(st.integers(0, 4), max_size=3).map(tuple)
DTYPES = st.sampled_from([torch.float32, torch.float64, torch.int64, torch.float16, torch.bool])
LAYOUTS = st.dictionaries(st.text("abc./", min_size=1, max_size=5), st.tuples(SHAPES, DTYPES), max_size=4)


@dataclass(frozen=True)
class Config:
    width: int


@st.composite
def networks(draw: st.DrawFn) -> list[TrainedNetwork]:
    layouts = draw(st.lists(LAYOUTS, min_size=1, max_size=3))
    indices = draw(st.lists(st.integers(0, 10**6), unique=True, max_size=8))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 1000)))
    return [
        _network(index, draw(st.sampled_from(layouts)), draw(st.integers(0, 2)), generator)
        for index in indices
    ]


def _network(index: int, layout: dict, checkpoints: int, generator: torch.Generator) -> TrainedNetwork:
    def state_dict() -> dict[str, Tensor]:
        return {name: _tensor(shape, dtype, generator) for name, (shape, dtype) in layout.items()}

    earlier = {10 * step: state_dict() for step in range(checkpoints)}
    return TrainedNetwork(index, Config(index % 7), Trained(state_dict(), {"loss": index / 3}, earlier))


def _tensor(shape: tuple[int, ...], dtype: torch.dtype, generator: torch.Generator) -> Tensor:
    special = torch.tensor([torch.nan, torch.inf, -torch.inf, 0.0, -0.0, 1e38])
    values = torch.randn(shape, generator=generator)
    where = torch.rand(shape, generator=generator) < 0.2
    drawn = special[torch.randint(6, shape, generator=generator)]
    return torch.where(where, drawn, values).to(dtype) if dtype.is_floating_point else (values * 9).to(dtype)


def same_bits(a: Tensor, b: Tensor) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.numpy().tobytes() == b.numpy().tobytes()


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return list(a) == list(b) and all(same_bits(a[name], b[name]) for name in a)


@given(networks())
def test_weights_come_back(tmp_path_factory: pytest.TempPathFactory, drawn: list[TrainedNetwork]) -> None:
    path = tmp_path_factory.mktemp("shard") / "weights.safetensors"
    shard = encode(drawn)
    path.write_bytes(shard.weights)
    weights, by_index = Weights(path), {network.index: network.trained for network in drawn}
    found = [(s, r, index) for s, stack in enumerate(shard.stacks) for r, index in enumerate(stack)]
    assert sorted(index for _, _, index in found) == sorted(by_index)
    for stack, row, index in found:
        trained = by_index[index]
        assert same(weights.state_dict(stack, row), trained.state_dict)
        assert weights.steps(stack) == tuple(trained.checkpoints)
        assert weights.size(stack) == sum(x.numel() for x in trained.state_dict.values())
        for step, state in trained.checkpoints.items():
            assert same(weights.state_dict(stack, row, step=step), state)


@given(networks())
def test_the_table_says_where_networks_are(drawn: list[TrainedNetwork]) -> None:
    shard = encode(drawn)
    rows = pq.read_table(BytesIO(shard.table)).to_pylist()
    assert [row["index"] for row in rows] == [index for stack in shard.stacks for index in stack]
    for row in rows:
        assert shard.stacks[row["stack"]][row["row"]] == row["index"]
        assert row["width"] == row["index"] % 7 and row["loss"] == row["index"] / 3


@given(networks())
def test_equal_networks_give_equal_bytes(drawn: list[TrainedNetwork]) -> None:
    assert encode(drawn) == encode(drawn)


def shard_of(tensor: Tensor, folder: Path, *, half: bool) -> Weights:
    path = folder / "weights.safetensors"
    path.write_bytes(encode([TrainedNetwork(0, Config(1), Trained({"w": tensor}, {}))], half=half).weights)
    return Weights(path, half=half)


def test_half_precision_is_stored_and_float_is_read(tmp_path: Path) -> None:
    values = torch.randn(1000)
    full = len(encode([TrainedNetwork(0, Config(1), Trained({"w": values}, {}))]).weights)
    half = len(encode([TrainedNetwork(0, Config(1), Trained({"w": values}, {}))], half=True).weights)
    assert full - half == 2 * 1000
    read = shard_of(values, tmp_path, half=True).state_dict(0, 0)["w"]
    assert read.dtype == torch.float32 and torch.equal(read, values.half().float())


@pytest.mark.parametrize("value", [70_000.0, -1e30])
def test_half_precision_never_makes_a_number_infinite(tmp_path: Path, value: float) -> None:
    values = torch.tensor([1.0 / 3, value])
    assert torch.equal(shard_of(values, tmp_path, half=True).state_dict(0, 0)["w"], values)


def test_half_precision_keeps_what_is_no_number(tmp_path: Path) -> None:
    values = torch.tensor([torch.nan, torch.inf, 0.5])
    read = shard_of(values, tmp_path, half=True).state_dict(0, 0)["w"]
    assert same_bits(read.isnan(), values.isnan()) and same_bits(read[1:], values[1:])


def test_integers_are_never_rounded(tmp_path: Path) -> None:
    counted = torch.tensor(123_457)
    assert same_bits(shard_of(counted, tmp_path, half=True).state_dict(0, 0)["w"], counted)


def test_tied_and_strided_tensors(tmp_path: Path) -> None:
    whole = torch.arange(12.0).reshape(3, 4)
    path = tmp_path / "weights.safetensors"
    state = {"a": whole, "b": whole, "c": whole.T, "d": whole[:, 1]}
    path.write_bytes(encode([TrainedNetwork(0, Config(1), Trained(state, {}))]).weights)
    assert same(
        Weights(path).state_dict(0, 0),
        {name: x.clone(memory_format=torch.contiguous_format) for name, x in state.items()},
    )


def test_what_is_done_to_weights_does_not_reach_the_zoo(tmp_path: Path) -> None:
    weights = shard_of(torch.zeros(3), tmp_path, half=False)
    weights.state_dict(0, 0)["w"].add_(1)
    assert torch.equal(weights.state_dict(0, 0)["w"], torch.zeros(3))


def test_columns_say_what_they_are() -> None:
    shard = encode([TrainedNetwork(3, Config(1), Trained({}, {"loss": 0.5, "note": "x", "diverged": False}))])
    schema = pq.read_table(BytesIO(shard.table)).schema
    roles = {field.name: (field.metadata or {}).get(ROLE) for field in schema}
    metrics = dict.fromkeys(["loss", "note", "diverged"], METRIC)
    assert roles == {"index": None, "stack": None, "row": None, "width": CONFIG, **metrics}


@pytest.mark.parametrize("name", ["width", "index", "stack"])
def test_a_metric_cannot_have_the_name_of_another_column(name: str) -> None:
    with pytest.raises(ZooError, match=name):
        encode([TrainedNetwork(0, Config(1), Trained({}, {name: 1}))])


def test_the_layout_of_stacks_is_written_in_the_file(tmp_path: Path) -> None:
    """The format of docs/zoos.md, for readers in other languages."""
    shard = encode([TrainedNetwork(0, Config(1), Trained({"b": torch.ones(2), "a": torch.ones(1)}, {}))])
    size = int.from_bytes(shard.weights[:8], "little")
    header = json.loads(shard.weights[8 : 8 + size])
    assert json.loads(header["__metadata__"]["stacks"]) == [{"parameters": ["b", "a"], "steps": []}]
    assert header["0/b"]["shape"] == [1, 2]


@pytest.mark.parametrize(
    "damage", [lambda content: content[:100], lambda content: b"", lambda content: b"{" * 99]
)
def test_a_damaged_file_is_named(tmp_path: Path, damage) -> None:
    path = tmp_path / "weights-00000.safetensors"
    path.write_bytes(
        damage(encode([TrainedNetwork(0, Config(1), Trained({"w": torch.ones(99)}, {}))]).weights)
    )
    with pytest.raises(ZooError, match=r"weights-00000.safetensors cannot be read.*gmn zoo check"):
        Weights(path)
