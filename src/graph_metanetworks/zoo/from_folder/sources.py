"""The files that a zoo is made from, in the order of its networks, and those that were left out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from graph_metanetworks.checkpoints.find import find_checkpoints
from graph_metanetworks.errors import ZooError
from graph_metanetworks.storage.atomic import append_durably, write_durably
from graph_metanetworks.zoo.description import NAME as DESCRIPTION
from graph_metanetworks.zoo.plan import Range, ShardPlan

FILES, LEFT_OUT = "files.jsonl", "left-out.jsonl"
SHARD, BYTES = 256, 64 << 20  # of a shard: files at most, and bytes of them, which are held in memory


@dataclass(frozen=True)
class SourceFile:
    """A checkpoint, by its path in the folder, and its size."""

    file: str
    bytes: int


@dataclass(frozen=True)
class LeftOut:
    """A file that did not become a network of the zoo, and why."""

    file: str
    reason: str

    @property
    def line(self) -> str:
        """The first line of the reason, after the file."""
        lines = self.reason.removeprefix(self.reason[: self._name_end]).splitlines()
        return f"{self.file}: {' '.join(line.strip() for line in lines[:2])}"

    @property
    def _name_end(self) -> int:
        """Where the reason goes on after the name of the file, if it begins with that."""
        quoted = f"{self.file}' "
        at = self.reason.find(quoted)
        return at + len(quoted) if at >= 0 and self.reason.startswith("'") else 0


def list_files(folder: Path, out: Path) -> list[SourceFile]:
    """Return the files that an earlier import has listed, then those that are new since."""
    if not folder.is_dir():
        raise ZooError(f"there is no folder '{folder}'.")
    found = find_checkpoints(folder, skip=lambda place: (place / DESCRIPTION).is_file())
    known = [SourceFile(**json.loads(line)) for line in _lines(out / FILES)]
    listed = {one.file for one in known}
    new = [_source(path, folder) for path in found if path.relative_to(folder).as_posix() not in listed]
    if not known and not new:
        raise ZooError(f"{folder} has no checkpoints.")
    return [*known, *new]


def save_files(out: Path, files: Iterable[SourceFile]) -> None:
    lines = [json.dumps(asdict(one)).encode() + b"\n" for one in files]
    write_durably(out / FILES, b"".join(lines))


def plan_shards(files: Sequence[SourceFile], ranges: Iterable[Range]) -> list[ShardPlan]:
    """Return shards of consecutive files, few enough to be held in memory."""
    shards: list[tuple[int, ...]] = []
    for one in ranges:
        shard: list[int] = []
        for index in range(one.start, one.stop):
            size = sum(files[i].bytes for i in shard) + files[index].bytes
            if shard and (len(shard) == one.shard_size or size > BYTES):
                shards.append(tuple(shard))
                shard = []
            shard.append(index)
        shards.append(tuple(shard))
    return [ShardPlan(number, (shard,)) for number, shard in enumerate(shards)]


def add_left_out(out: Path, left_out: Iterable[LeftOut]) -> None:
    for one in left_out:
        append_durably(out / LEFT_OUT, json.dumps(asdict(one)).encode())


def read_left_out(folder: Path) -> list[LeftOut]:
    """Return the files that were left out of a zoo; the last reason of each, if a shard was made twice."""
    last = {one["file"]: LeftOut(**one) for one in map(json.loads, _lines(folder / LEFT_OUT))}
    return list(last.values())


def _source(path: Path, folder: Path) -> SourceFile:
    inner = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return SourceFile(path.relative_to(folder).as_posix(), sum(file.stat().st_size for file in inner))


def _lines(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines() if line] if path.is_file() else []
