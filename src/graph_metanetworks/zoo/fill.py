"""Fill a folder with the shards of a zoo: keep finished shards and make the missing ones."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from pathlib import Path
from textwrap import indent

from graph_metanetworks.console import say
from graph_metanetworks.errors import ZooError
from graph_metanetworks.storage.atomic import append_durably
from graph_metanetworks.storage.lock import locked
from graph_metanetworks.zoo.check import intact_shards
from graph_metanetworks.zoo.description import NAME, Description, versions
from graph_metanetworks.zoo.files import refuse_foreign, remove_temporaries
from graph_metanetworks.zoo.manifest import NAME as MANIFEST
from graph_metanetworks.zoo.manifest import ShardRecord, read_manifest, rewrite_manifest, save_shard
from graph_metanetworks.zoo.plan import Range, ShardPlan
from graph_metanetworks.zoo.progress import Display
from graph_metanetworks.zoo.recover import ConfigOf, recover
from graph_metanetworks.zoo.shard import Shard
from graph_metanetworks.zoo.workers import Progress

Planner = Callable[[Description], Sequence[ShardPlan]]
TrainShards = Callable[[Sequence[ShardPlan], Progress], Generator[tuple[int, Shard], None, None]]


def fill(
    folder: Path,
    requested: Description,
    planner: Planner,
    train: TrainShards,
    *,
    config_of: ConfigOf | None = None,
    shard_size: int | None = None,
    quiet: bool = False,
) -> None:
    """Make the requested zoo, or the missing part of it.

    Args:
        config_of: returns the config of a network, which identifies shards whose manifest lines were lost.
            Without it, such shards are made again.
        shard_size: the shard size that the user asked for, if any.
    """
    refuse_foreign(folder)
    with locked(folder):
        description = _reconciled(folder, requested)
        if not quiet:
            _note_versions(folder, description)
            _note_shard_size(folder, description, shard_size)
        remove_temporaries(folder)
        shards = planner(description)
        finished = _finished(folder, shards)
        if config_of:
            unfinished = [shard for shard in shards if shard.number not in finished]
            finished |= _recovered(folder, unfinished, config_of, requested, quiet)
        missing = [shard for shard in shards if shard.number not in finished]
        if missing:
            finished |= _make(folder, missing, train, total=description.count, quiet=quiet)
        rewrite_manifest(folder, finished.values())


def _make(
    folder: Path, missing: Sequence[ShardPlan], train: TrainShards, *, total: int, quiet: bool
) -> dict[int, ShardRecord]:
    sizes = {shard.number: shard.size for shard in missing}
    made: dict[int, ShardRecord] = {}
    with (
        Display(total, total - sum(sizes.values()), quiet=quiet) as display,
        closing(train(missing, display.update)) as results,  # an error here stops the workers
    ):
        for number, shard in results:
            made[number] = save_shard(folder, number, shard)
            display.finish(number, sizes[number])
    return made


def _finished(folder: Path, shards: Sequence[ShardPlan]) -> dict[int, ShardRecord]:
    """Return the intact shards. Damaged ones are made again."""
    records = read_manifest(folder)
    planned = {shard.number: shard for shard in shards}
    for record in records.values():
        shard = planned.get(record.shard)
        indices = [index for stack in record.stacks for index in stack]
        if shard is None or not shard.holds(indices, record.dropped):
            raise ZooError(
                f"shard {record.shard} of {folder} does not hold the planned networks: the recipe no longer "
                "draws the hyper-parameters it drew when the zoo was started. Build in another folder."
            )
    return intact_shards(folder, records.values())


def _recovered(
    folder: Path, shards: Sequence[ShardPlan], config_of: ConfigOf, requested: Description, quiet: bool
) -> dict[int, ShardRecord]:
    """Add intact shards that are missing from the manifest to it, and return them."""
    listed = read_manifest(folder)  # unfinished shards that are listed are damaged
    found = [
        recover(folder, shard, config_of, drop_diverged=requested.drop_diverged)
        for shard in shards
        if shard.number not in listed
    ]
    records = {record.shard: record for record in found if record}
    for record in records.values():
        append_durably(folder / MANIFEST, record.line())
    if records and not quiet:
        _note(f"{folder}: kept {len(records):,} intact shards that were missing from the manifest.")
    return records


def _reconciled(folder: Path, requested: Description) -> Description:
    """Return the description of the new zoo, or of the existing zoo with networks added."""
    if not (folder / NAME).exists():
        dated = requested.dated()
        dated.save(folder)
        return dated
    existing = Description.load(folder)
    different = existing.differences(requested)
    if requested.count < existing.count:
        different.append(f"count: {existing.count}, not {requested.count}")
    if different:
        listed = indent("\n".join(different), "  ")
        raise ZooError(
            f"{folder} holds a different zoo than this command builds:\n{listed}\n"
            "Rerun the command that started it, perhaps with a larger count, or build in another folder."
        )
    if requested.count > existing.count:
        more = Range(existing.count, requested.count, requested.ranges[0].shard_size)
        existing = existing.extended(more)
        existing.save(folder)
    return existing


def _note_versions(folder: Path, description: Description) -> None:
    before, now = description.versions or {}, versions()
    changed = [f"{name} {before[name]}, now {now[name]}" for name in before if before[name] != now.get(name)]
    if changed:
        _note(f"{folder} was started with {'; '.join(changed)}. New shards may differ in the last bits.")


def _note_shard_size(folder: Path, description: Description, requested: int | None) -> None:
    others = sorted({one.shard_size for one in description.ranges} - {requested})
    if requested is not None and others:
        _note(
            f"{folder} was started with shards of {' and '.join(map(str, others))} networks and keeps them. "
            f"The shard size of {requested} applies only to added networks."
        )


def _note(text: str) -> None:
    say(text, "yellow", err=True)
