"""Histograms: every network is counted in its group, and groups may be empty."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graph_metanetworks.errors import ZooError
from graph_metanetworks.zoo.histogram import bars, histogram

ROWS = st.lists(
    st.tuples(st.floats(0, 1) | st.just(float("nan")) | st.none(), st.sampled_from("abc")), min_size=1
)


@given(ROWS)
def test_every_network_is_counted(rows: list[tuple[float | None, str]]) -> None:
    values, families = zip(*rows, strict=True)
    found = histogram(pa.table({"test_accuracy": pa.array(values, pa.float64()), "family": families}))
    assert found.values.keys() == set(families)
    for family in found.values:
        known = found.counts(family).sum()
        assert known + found.not_finite[family] == families.count(family)
    assert all(family in found.text() for family in families)


@given(st.lists(st.integers(0, 100), min_size=1).map(np.array))
def test_bars(counts: np.ndarray) -> None:
    text = bars(counts)
    assert len(text) == len(counts)
    assert [character == " " for character in text] == [count == 0 for count in counts]
    assert counts.max() == 0 or text[counts.argmax()] == "█"


def test_columns_are_chosen() -> None:
    table = pa.table({"loss": [1.0, 2.0], "kind": ["x", "y"]})
    assert histogram(table).metric == "loss" and histogram(table).values.keys() == {"all"}
    assert histogram(table, by="kind").values.keys() == {"x", "y"}
    with pytest.raises(ZooError, match="there is no column 'size'; the columns are loss, kind"):
        histogram(table, by="size")
    with pytest.raises(ZooError, match="'kind' is not numeric"):
        histogram(table, metric="kind")
    with pytest.raises(ZooError, match="choose a --metric"):
        histogram(pa.table({"kind": ["x"]}))


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_pictures(suffix: str, tmp_path: Path) -> None:
    table = pa.table({"test_accuracy": [0.1, 0.5, float("nan")], "family": ["a", "a", "b"]})
    drawn = histogram(table).draw(tmp_path / f"histogram.{suffix}")
    assert drawn.stat().st_size > 1000
    if suffix == "svg":
        assert "a (2)" in drawn.read_text() and "test accuracy" in drawn.read_text()


def test_bars_are_as_fine_as_there_is_room() -> None:
    table = pa.table({"loss": [0.0, 1.0, float("nan")], "family": ["a", "a", "a"]})
    for width in (70, 80, 100):
        assert len(histogram(table).text(width).splitlines()[1]) <= width
    assert "not finite" in histogram(table).text() and "not finite" not in histogram(table[:2]).text()
