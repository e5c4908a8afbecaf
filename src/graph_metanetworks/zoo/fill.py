"""Fill a folder with the shards of a zoo: keep what is finished, make what is missing."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent

from rich.console import Console

from graph_metanetworks.errors import ZooError
from graph_metanetworks.storage.atomic import append_durably
from graph_metanetworks.storage.lock import locked
from graph_metanetworks.zoo.adopt import Drawn, adopted
from graph_metanetworks.zoo.check import whole
from graph_metanetworks.zoo.description import NAME, Description, versions
from graph_metanetworks.zoo.files import refuse_foreign, remove_temporaries
from graph_metanetworks.zoo.manifest import NAME as MANIFEST
from graph_metanetworks.zoo.manifest import Record, read_manifest, rewrite_manifest, save_shard
from graph_metanetworks.zoo.plan import Range, ShardPlan
from graph_metanetworks.zoo.progress import Display
from graph_metanetworks.zoo.shard import Shard
from graph_metanetworks.zoo.workers import Progress

Planner = Callable[[Description], Sequence[ShardPlan]]
Maker = Callable[[Sequence[ShardPlan], Progress], Generator[tuple[int, Shard], None, None]]


def fill(
    folder: Path,
    asked: Description,
    planner: Planner,
    maker: Maker,
    *,
    drawn: Drawn | None = None,
    shard_size: int | None = None,
    quiet: bool = False,
) -> None:
    """Make the zoo that was asked for, or what is missing of it.

    Args:
        drawn: configs of networks, by which shards are known again whose lines in the manifest were lost;
            without, they are made again.
        shard_size: the size of shards, if the user named one.
    """
    refuse_foreign(folder)
    with locked(folder):
        description = _agreed(folder, asked)
        if not quiet:
            _note_versions(folder, description)
            _note_shard_size(folder, description, shard_size)
        remove_temporaries(folder)
        shards = planner(description)
        finished = _finished(folder, shards)
        if drawn:
            finished |= _found(folder, [s for s in shards if s.number not in finished], drawn, asked, quiet)
        missing = [shard for shard in shards if shard.number not in finished]
        if missing:
            finished |= _Filling(folder, description.count, missing, quiet).run(maker)
        rewrite_manifest(folder, finished.values())


@dataclass(frozen=True)
class _Filling:
    folder: Path
    total: int
    missing: Sequence[ShardPlan]
    quiet: bool

    def run(self, maker: Maker) -> dict[int, Record]:
        sizes = {shard.number: shard.size for shard in self.missing}
        made: dict[int, Record] = {}
        with (
            Display(self.total, self.total - sum(sizes.values()), quiet=self.quiet) as display,
            closing(maker(self.missing, display.partly)) as results,  # an error here stops the workers
        ):
            for number, shard in results:
                made[number] = save_shard(self.folder, number, shard)
                display.finished(number, sizes[number])
        return made


def _finished(folder: Path, shards: Sequence[ShardPlan]) -> dict[int, Record]:
    """Shards that are there and whole; damaged ones are made again."""
    records = read_manifest(folder)
    planned = {shard.number: shard for shard in shards}
    for record in records.values():
        shard = planned.get(record.shard)
        indices = [index for stack in record.stacks for index in stack]
        if shard is None or not shard.holds(indices, record.dropped):
            raise ZooError(
                f"shard {record.shard} of {folder} has other networks than planned: the recipe draws other "
                "hyper-parameters than when the zoo was begun. Build in another folder."
            )
    return whole(folder, records.values())


def _found(
    folder: Path, shards: Sequence[ShardPlan], drawn: Drawn, asked: Description, quiet: bool
) -> dict[int, Record]:
    """Shards without a line in the manifest that are whole; they get one."""
    claimed = read_manifest(folder)  # but damaged
    found = [
        adopted(folder, shard, drawn, drop_diverged=asked.drop_diverged)
        for shard in shards
        if shard.number not in claimed
    ]
    records = {record.shard: record for record in found if record}
    for record in records.values():
        append_durably(folder / MANIFEST, record.line())
    if records and not quiet:
        _note(f"whole shards of {folder} without a line in the manifest: {len(records):,}; they are kept.")
    return records


def _agreed(folder: Path, asked: Description) -> Description:
    """What is to be in the folder: what was asked for, or what is there already and more of it."""
    if not (folder / NAME).exists():
        dated = asked.dated()
        dated.save(folder)
        return dated
    there = Description.load(folder)
    different = there.differences(asked)
    if asked.count < there.count:
        different.append(f"count: {there.count}, not {asked.count}")
    if different:
        listed = indent("\n".join(different), "  ")
        raise ZooError(
            f"{folder} has another zoo than this command makes:\n{listed}\n"
            "Go on with the command that began it, a larger count is welcome; or build in another folder."
        )
    if asked.count > there.count:
        there = there.extended(Range(there.count, asked.count, asked.ranges[0].shard_size))
        there.save(folder)
    return there


def _note_versions(folder: Path, description: Description) -> None:
    before, now = description.versions or {}, versions()
    changed = [f"{name} {before[name]}, now {now[name]}" for name in before if before[name] != now.get(name)]
    if changed:
        _note(f"{folder} was begun with {'; '.join(changed)}: new shards may differ in the last bits.")


def _note_shard_size(folder: Path, description: Description, asked: int | None) -> None:
    others = sorted({one.shard_size for one in description.ranges} - {asked})
    if asked is not None and others:
        _note(
            f"{folder} was begun with shards of {' and '.join(map(str, others))} networks, and keeps them: "
            f"shards of {asked} are for networks that are added."
        )


def _note(text: str) -> None:
    Console(stderr=True).print(text, style="yellow", markup=False, soft_wrap=True)
