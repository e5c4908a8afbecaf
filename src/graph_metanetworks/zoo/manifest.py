"""manifest.jsonl: one line per finished shard, with its checksums.

Lines are only appended while a zoo is built, and each has its own checksum. So a torn or damaged line costs
one shard, and a later line for the same shard replaces an earlier one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from graph_metanetworks.storage import checksum
from graph_metanetworks.storage.atomic import append_durably, write_durably
from graph_metanetworks.zoo.shard import Shard

NAME = "manifest.jsonl"


@dataclass(frozen=True, slots=True)
class ShardRecord:
    """A finished shard: the networks of each stack, and the checksums and sizes of its files."""

    shard: int
    stacks: list[list[int]]
    weights: str  # sha256
    weights_bytes: int
    table: str
    table_bytes: int
    dropped: int = 0  # networks that diverged and were left out

    @property
    def size(self) -> int:
        return sum(map(len, self.stacks))

    def line(self) -> bytes:
        return json.dumps(checksum.sealed(asdict(self))).encode()


def weights_path(folder: Path, shard: int) -> Path:
    return folder / f"weights-{shard:05}.safetensors"


def table_path(folder: Path, shard: int) -> Path:
    return folder / f"table-{shard:05}.parquet"


def save_shard(folder: Path, number: int, shard: Shard) -> ShardRecord:
    """Write a shard. It counts as finished once its line is in the manifest."""
    write_durably(weights_path(folder, number), shard.weights)
    write_durably(table_path(folder, number), shard.table)
    record = ShardRecord(
        shard=number,
        stacks=shard.stacks,
        weights=checksum.of_bytes(shard.weights),
        weights_bytes=len(shard.weights),
        table=checksum.of_bytes(shard.table),
        table_bytes=len(shard.table),
        dropped=shard.dropped,
    )
    append_durably(folder / NAME, record.line())
    return record


def read_manifest(folder: Path) -> dict[int, ShardRecord]:
    """Return the finished shards by number, in order. Damaged lines are skipped."""
    records = {record.shard: record for record in map(_record, _lines(folder)) if record}
    return dict(sorted(records.items()))


def damaged_lines(folder: Path) -> list[int]:
    """Return the numbers of damaged lines, counted from 1."""
    return [number for number, line in enumerate(_lines(folder), start=1) if _record(line) is None]


def rewrite_manifest(folder: Path, records: Iterable[ShardRecord]) -> None:
    """Write one line per shard, in order, so that equal zoos have equal manifests however they were built."""
    lines = [record.line() + b"\n" for record in sorted(records, key=lambda record: record.shard)]
    write_durably(folder / NAME, b"".join(lines))


def _lines(folder: Path) -> list[bytes]:
    path = folder / NAME
    return path.read_bytes().splitlines() if path.exists() else []


def _record(line: bytes) -> ShardRecord | None:
    try:
        content = json.loads(line)
    except ValueError:
        return None
    if not checksum.is_intact(content):
        return None
    return ShardRecord(**{key: value for key, value in content.items() if key != "checksum"})
