"""Splits: the paper's sizes, no network twice, nothing large seen before the test in the setting ood."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graph_metanetworks.errors import TaskError
from graph_metanetworks.tasks.grouped_splits import GroupedSetting
from graph_metanetworks.tasks.splits import Setting


def table(count: int) -> pa.Table:
    generator = np.random.default_rng(count)
    families = generator.choice(["cnn", "vit"], count)
    hidden = np.where(
        families == "cnn", generator.choice([24, 28, 32], count), generator.choice([32, 48], count)
    )
    return pa.table({"family": families, "hidden": hidden})


@given(
    st.integers(80, 400),
    st.sampled_from(["50", "5", "80", "12.5", "ood", "ladder", "family!=vit", "hidden!=32"]),
    st.integers(0, 9),
)
def test_parts_share_nothing(count: int, name: str, seed: int) -> None:
    usable = np.random.default_rng(seed).random(count) < 0.9
    parts = Setting.parse(name).split(table(count), usable, seed).parts()
    together = np.concatenate(list(parts.values()))
    assert len(set(together.tolist())) == len(together)
    assert sorted(together.tolist()) == np.flatnonzero(usable).tolist()
    assert all(len(own) and (np.diff(own) > 0).all() for own in parts.values())


def test_the_papers_sizes() -> None:
    count = 30_000
    everything = np.ones(count, dtype=bool)
    half, twentieth = (Setting.parse(name).split(table(count), everything, 0) for name in ("50", "5"))
    assert [len(own) for own in half.parts().values()] == [15_000, 2_000, 13_000]
    assert [len(own) for own in twentieth.parts().values()] == [1_500, 2_000, 26_500]


def test_ood_tests_on_larger_networks_only() -> None:
    known = table(600)
    split = Setting.parse("ood").split(known, np.ones(600, dtype=bool), 0)
    hidden, family = known["hidden"].to_numpy(), np.array(known["family"].to_pylist())
    for part, sizes in (
        ("train", {("cnn", 24), ("vit", 32)}),
        ("validation", {("cnn", 24), ("vit", 32)}),
        ("test", {("cnn", 28), ("cnn", 32), ("vit", 48)}),
    ):
        own = split.parts()[part]
        assert set(zip(family[own].tolist(), hidden[own].tolist(), strict=True)) == sizes


def test_the_ladder_holds_out_small_networks_too() -> None:
    known, everything = table(600), np.ones(600, dtype=bool)
    ood, ladder = (Setting.parse(name).split(known, everything, 0) for name in ("ood", "ladder"))
    small = np.union1d(ood.train, ood.validation)
    held_out = np.intersect1d(ladder.test, small)
    assert len(held_out) == len(small) // 4
    assert np.array_equal(np.setdiff1d(ladder.test, held_out), ood.test)


@given(st.sampled_from([("family", "vit"), ("hidden", "32")]), st.integers(0, 9))
def test_what_is_left_out_is_tested_only(left_out: tuple[str, str], seed: int) -> None:
    known, everything = table(400), np.ones(400, dtype=bool)
    column, value = left_out
    values = np.array([str(one) for one in known[column].to_pylist()])
    split = Setting.parse(f"{column}!={value}").split(known, everything, seed)
    assert value not in values[np.concatenate([split.train, split.validation])]
    assert set(np.flatnonzero(values == value)) <= set(split.test.tolist())
    others = values[split.test] != value
    assert others.sum() == (values != value).sum() // 4


def test_what_is_left_out_must_be_there_with_others() -> None:
    known, everything = table(100), np.ones(100, dtype=bool)
    with pytest.raises(TaskError, match=r"family!=resnet needs networks .* this zoo has cnn, vit\."):
        Setting.parse("family!=resnet").split(known, everything, 0)
    with pytest.raises(TaskError, match="this zoo has cnn"):  # nothing is left to train on
        Setting.parse("family!=cnn").split(known, np.array(known["family"]) == "cnn", 0)
    with pytest.raises(TaskError, match="column 'kind', which this zoo lacks"):
        Setting.parse("kind!=hash").split(known, everything, 0)


def test_seeds_give_other_splits() -> None:
    usable = np.ones(200, dtype=bool)
    first, again, other = (Setting.parse("50").split(table(200), usable, seed) for seed in (0, 0, 1))
    assert np.array_equal(first.train, again.train) and not np.array_equal(first.train, other.train)


def test_ood_needs_several_sizes() -> None:
    one = pa.table({"family": ["cnn"] * 90, "hidden": [24] * 90})
    with pytest.raises(TaskError, match=r"cnn with 24 only.*Choose a percentage"):
        Setting.parse("ood").split(one, np.ones(90, dtype=bool), 0)
    with pytest.raises(TaskError, match="column 'hidden', which this zoo lacks"):
        Setting.parse("ood").split(one.drop_columns(["hidden"]), np.ones(90, dtype=bool), 0)


@pytest.mark.parametrize(
    "name", ["0", "100", "half", "-5", "", "kind!=", "!=hash", "kind=hash", "kind!=../up"]
)
def test_unknown_settings(name: str) -> None:
    with pytest.raises(TaskError, match="there is no setting"):
        Setting.parse(name)


def test_too_few_networks() -> None:
    with pytest.raises(TaskError, match="9 networks are too few for the setting 5"):
        Setting.parse("5").split(table(9), np.ones(9, dtype=bool), 0)


def test_what_is_left_out_of_a_zoo_with_a_split_of_its_own() -> None:
    count = 300
    known = pa.table(
        {
            "image": np.arange(count) // 3,
            "kind": ["siren", "grid", "hash"] * (count // 3),
            "split": ["train"] * 210 + ["test"] * 90,
        }
    )
    everything = np.ones(count, dtype=bool)
    own, without = (
        GroupedSetting.of(name, "image").split(known, everything, 0) for name in ("own", "kind!=hash")
    )
    hashed = np.arange(count) % 3 == 2
    assert np.array_equal(without.test, own.test)
    for part in ("train", "validation"):
        expected = own.parts()[part]
        assert np.array_equal(without.parts()[part], expected[~hashed[expected]])
    with pytest.raises(TaskError, match="no setting 'ood' here"):
        GroupedSetting.of("ood", "image")
