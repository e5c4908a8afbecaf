"""Build a zoo: plan it, train what is missing, keep what is finished."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from graph_metanetworks.errors import ZooError
from graph_metanetworks.zoo.check import whole
from graph_metanetworks.zoo.description import NAME, Description, as_json, versions
from graph_metanetworks.zoo.durable import remove_temporaries
from graph_metanetworks.zoo.lock import locked
from graph_metanetworks.zoo.manifest import Record, read_manifest, rewrite_manifest, save_shard
from graph_metanetworks.zoo.plan import ShardPlan, plan, range_of
from graph_metanetworks.zoo.progress import Display
from graph_metanetworks.zoo.recipe import Recipe
from graph_metanetworks.zoo.registry import reference_of
from graph_metanetworks.zoo.shard import Shard
from graph_metanetworks.zoo.train import Job
from graph_metanetworks.zoo.workers import Progress, train_here, train_in_processes
from graph_metanetworks.zoo.zoo import Zoo

Trainer = Callable[[Job, Sequence[ShardPlan], Progress], Iterator[tuple[int, Shard]]]


def build(
    recipe: Recipe[Any],
    count: int,
    out: str | os.PathLike[str],
    *,
    seed: int = 0,
    workers: int | None = None,
    half: bool = False,
    drop_diverged: bool = False,
    shard_size: int | None = None,
    ray: str | None = None,
    reference: str | None = None,
    quiet: bool = False,
) -> Zoo:
    """Build a zoo of `count` networks in a folder, or go on with it; a larger count adds networks.

    Args:
        workers: processes of this machine, one for each core if not given; with 1 this process trains itself.
        half: store weights in half precision.
        drop_diverged: leave out networks whose metrics say that they diverged.
        shard_size: networks of a shard; what is lost of a worker that is stopped.
        ray: address of a Ray cluster that trains instead of this machine; "local" starts one here.
        reference: how zoo.json names the recipe, by default by its module and class.
        quiet: show no progress bar.
    """
    if count < 1:
        raise ZooError(f"a zoo needs at least one network, not {count}.")
    folder = Path(out)
    asked = Description(
        recipe=reference or reference_of(recipe),
        settings=as_json(recipe.settings()),
        seed=seed,
        ranges=(range_of(0, count, shard_size),),
        half=half,
        drop_diverged=drop_diverged,
        versions=versions(),
    )
    job = Job(recipe, seed=seed, half=half, drop_diverged=drop_diverged)
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        description = _agreed(folder, asked, shard_size)
        _Build(folder, job, description, quiet).run(_trainer(workers, ray))
    return Zoo.open(folder, recipe=recipe)


@dataclass(frozen=True)
class _Build:
    folder: Path
    job: Job
    description: Description
    quiet: bool

    def run(self, trainer: Trainer) -> None:
        remove_temporaries(self.folder)
        shards = plan(self.job.recipe, self.description.seed, self.description.ranges)
        finished = self._finished(shards)
        missing = [shard for shard in shards if shard.number not in finished]
        if missing:
            finished |= self._train(trainer, missing)
        rewrite_manifest(self.folder, finished.values())

    def _finished(self, shards: Sequence[ShardPlan]) -> dict[int, Record]:
        """Shards that are there and whole; the others are made again."""
        records = read_manifest(self.folder)
        unplanned = records.keys() - {shard.number for shard in shards}
        if unplanned:
            raise ZooError(
                f"{self.folder} has shards that the recipe does not plan: {sorted(unplanned)}. The recipe draws "
                "other networks than when the zoo was begun: build in another folder."
            )
        return whole(self.folder, records.values())

    def _train(self, trainer: Trainer, missing: Sequence[ShardPlan]) -> dict[int, Record]:
        sizes = {shard.number: shard.size for shard in missing}
        total, left = self.description.count, sum(sizes.values())
        made: dict[int, Record] = {}
        with Display(total, total - left, quiet=self.quiet) as display:
            with closing(trainer(self.job, missing, display.partly)) as results:  # stops the workers
                for number, shard in results:
                    made[number] = save_shard(self.folder, number, shard)
                    display.finished(number, sizes[number])
        return made


def _agreed(folder: Path, asked: Description, shard_size: int | None) -> Description:
    """What is to be in the folder: what was asked for, or what is there already and more of it."""
    if not (folder / NAME).exists():
        if read_manifest(folder):
            raise ZooError(f"{folder} has shards of a zoo, but {NAME} is missing: restore it, or build elsewhere.")
        asked.save(folder)
        return asked
    there = Description.load(folder)
    different = there.differences(asked)
    if asked.count < there.count:
        different.append(f"count: {there.count}, not {asked.count}")
    if different:
        raise ZooError(
            f"{folder} has another zoo than this command makes:\n  " + "\n  ".join(different) + "\nGo on with the "
            "command that began it, a larger count is welcome; or build in another folder."
        )
    if asked.count > there.count:
        there = there.extended(range_of(there.count, asked.count, shard_size))
        there.save(folder)
    return there


def _trainer(workers: int | None, ray: str | None) -> Trainer:
    if ray is not None:
        from graph_metanetworks.zoo.cluster import train_on_ray  # an extra

        return partial(train_on_ray, address=ray)
    count = workers or len(os.sched_getaffinity(0))
    return train_here if count == 1 else partial(train_in_processes, workers=count)
