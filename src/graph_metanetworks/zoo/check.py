"""Find damaged files in a zoo."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from graph_metanetworks.storage import checksum
from graph_metanetworks.zoo.description import Description
from graph_metanetworks.zoo.files import shard_of
from graph_metanetworks.zoo.linked import LinkedWeights, open_weights
from graph_metanetworks.zoo.manifest import (
    ShardRecord,
    damaged_lines,
    read_manifest,
    table_path,
    weights_path,
)


@dataclass(frozen=True)
class Report:
    """The findings of `gmn zoo check`."""

    networks: int
    shards: int
    unfinished: int  # networks
    problems: tuple[str, ...]
    unclaimed: tuple[str, ...] = ()  # files of shards that are missing from the manifest


def check(folder: Path) -> Report:
    """Read the whole zoo and compare every file with its checksum."""
    description = Description.load(folder)
    files = sorted(path.name for path in folder.iterdir())  # before the manifest, which may grow meanwhile
    records = read_manifest(folder)
    problems = [problem for record in records.values() for problem in shard_problems(folder, record)]
    lines = [f"manifest.jsonl, line {number}: damaged" for number in damaged_lines(folder)]
    finished = sum(record.size + record.dropped for record in records.values())
    unclaimed = [name for name in files if shard_of(name) not in (None, *records)]
    if len({shard_of(name) for name in unclaimed}) > 1:  # an interrupted build leaves at most one
        lines.append(f"manifest.jsonl: lines are missing for {', '.join(unclaimed)}")
    return Report(
        networks=sum(record.size for record in records.values()),
        shards=len(records),
        unfinished=description.count - finished,
        problems=(*lines, *problems),
        unclaimed=tuple(unclaimed),
    )


def shard_problems(folder: Path, record: ShardRecord) -> list[str]:
    """Return a line for each damaged file of a shard."""
    weights, table = weights_path(folder, record.shard), table_path(folder, record.shard)
    found = (
        _problem(weights, record.weights_bytes, record.weights),
        _problem(table, record.table_bytes, record.table),
    )
    problems = [problem for problem in found if problem]
    return problems or _linked_problems(weights)


def intact_shards(folder: Path, records: Iterable[ShardRecord]) -> dict[int, ShardRecord]:
    """Return the undamaged shards by number."""
    return {record.shard: record for record in records if not shard_problems(folder, record)}


def _linked_problems(path: Path) -> list[str]:
    """Return a line for each checkpoint that a shard references and that is missing or has changed."""
    weights = open_weights(path)
    return weights.problems() if isinstance(weights, LinkedWeights) else []


def _problem(path: Path, size: int, digest: str) -> str | None:
    if not path.is_file():
        return f"{path.name}: missing"
    actual = path.stat().st_size
    if actual != size:
        return f"{path.name}: {actual:,} bytes instead of {size:,}"
    if checksum.of_file(path) != digest:
        return f"{path.name}: the content does not match its checksum"
    return None
