"""The manifest: a damaged line costs its own shard and no other."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graph_metanetworks.storage.atomic import append_durably
from graph_metanetworks.zoo.manifest import NAME, ShardRecord, damaged_lines, read_manifest, rewrite_manifest

RECORDS = [
    ShardRecord(n, [[3 * n, 3 * n + 1], [3 * n + 2]], f"{n:064}", 100, f"{n + 7:064}", 50) for n in range(4)
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("manifest")


def write(folder: Path) -> bytes:
    (folder / NAME).unlink(missing_ok=True)
    for record in RECORDS:
        append_durably(folder / NAME, record.line())
    return (folder / NAME).read_bytes()


def test_records_come_back(folder: Path) -> None:
    write(folder)
    assert list(read_manifest(folder).values()) == RECORDS
    assert damaged_lines(folder) == []


@given(cut=st.integers(0, 10_000))
def test_a_torn_line_costs_one_shard(folder: Path, cut: int) -> None:
    content = write(folder)
    cut %= len(content)
    whole = content[:cut].count(b"\n")
    (folder / NAME).write_bytes(content[:cut])
    read = list(read_manifest(folder).values())
    assert RECORDS[:whole] == read or RECORDS[: whole + 1] == read  # only the end of the line is missing
    append_durably(folder / NAME, RECORDS[-1].line())
    assert (
        list(read_manifest(folder).values())
        == [*read, *RECORDS[-1:]][: len(read) + (RECORDS[-1] not in read)]
    )


@given(place=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_a_flipped_bit_costs_one_or_two_lines_and_never_lies(folder: Path, place: int, bit: int) -> None:
    content = bytearray(write(folder))
    content[place % len(content)] ^= 1 << bit
    (folder / NAME).write_bytes(content)
    read = list(read_manifest(folder).values())
    assert all(record in RECORDS for record in read)
    # a lost newline joins two lines
    assert len(read) >= 3 - (content.count(b"\n") < 4)
    assert len(read) == 4 or damaged_lines(folder)


def test_a_later_line_replaces_an_earlier_one(folder: Path) -> None:
    write(folder)
    newer = ShardRecord(1, [[9]], "x", 1, "y", 2, dropped=3)
    append_durably(folder / NAME, newer.line())
    assert read_manifest(folder)[1] == newer


def test_rewriting_orders_and_cleans(folder: Path) -> None:
    content = write(folder)
    (folder / NAME).write_bytes(b"rubbish\n" + content + content)
    rewrite_manifest(folder, list(reversed(read_manifest(folder).values())))
    assert (folder / NAME).read_bytes() == content
