"""What of a zoo is damaged."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from graph_metanetworks.storage import checksum
from graph_metanetworks.zoo.description import Description
from graph_metanetworks.zoo.files import shard_of
from graph_metanetworks.zoo.manifest import (
    Record,
    damaged_lines,
    read_manifest,
    table_path,
    weights_path,
)


@dataclass(frozen=True)
class Report:
    """What `gmn zoo check` found."""

    networks: int
    shards: int
    unfinished: int  # networks
    problems: tuple[str, ...]
    unclaimed: tuple[str, ...] = ()  # files of shards that have no line in the manifest


def check(folder: Path) -> Report:
    """Read a whole zoo and compare every file with its checksum."""
    description = Description.load(folder)
    files = sorted(path.name for path in folder.iterdir())  # before the manifest, which may grow meanwhile
    records = read_manifest(folder)
    problems = [problem for record in records.values() for problem in shard_problems(folder, record)]
    lines = [f"manifest.jsonl, line {number}: damaged" for number in damaged_lines(folder)]
    finished = sum(record.size + record.dropped for record in records.values())
    unclaimed = [name for name in files if shard_of(name) not in (None, *records)]
    if len({shard_of(name) for name in unclaimed}) > 1:  # a build that is stopped leaves one at most
        lines.append(f"manifest.jsonl: lines are missing, for nothing is said of {', '.join(unclaimed)}")
    return Report(
        networks=sum(record.size for record in records.values()),
        shards=len(records),
        unfinished=description.count - finished,
        problems=(*lines, *problems),
        unclaimed=tuple(unclaimed),
    )


def shard_problems(folder: Path, record: Record) -> list[str]:
    """What is wrong with the files of a shard, each with its name."""
    weights, table = weights_path(folder, record.shard), table_path(folder, record.shard)
    found = (
        _problem(weights, record.weights_bytes, record.weights),
        _problem(table, record.table_bytes, record.table),
    )
    return [problem for problem in found if problem]


def whole(folder: Path, records: Iterable[Record]) -> dict[int, Record]:
    """The shards without any damage, by number."""
    return {record.shard: record for record in records if not shard_problems(folder, record)}


def _problem(path: Path, size: int, digest: str) -> str | None:
    if not path.is_file():
        return f"{path.name}: missing"
    actual = path.stat().st_size
    if actual != size:
        return f"{path.name}: {actual:,} bytes instead of {size:,}"
    if checksum.of_file(path) != digest:
        return f"{path.name}: the content does not fit its checksum"
    return None
