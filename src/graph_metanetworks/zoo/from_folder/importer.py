"""Import a folder of checkpoints as a zoo, shard by shard, and leave out what does not fit."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graph_metanetworks.checkpoints.checkpoint import Source
from graph_metanetworks.checkpoints.networks import SavedNetwork
from graph_metanetworks.errors import TraceError, ZooError
from graph_metanetworks.extras import MissingExtra
from graph_metanetworks.zoo.description import NAME as DESCRIPTION
from graph_metanetworks.zoo.description import Description, plain_options, versions
from graph_metanetworks.zoo.fill import fill
from graph_metanetworks.zoo.from_folder.labels import Labels, Row
from graph_metanetworks.zoo.from_folder.recipe import FileConfig, FolderRecipe
from graph_metanetworks.zoo.from_folder.sources import (
    SHARD,
    LeftOut,
    SourceFile,
    add_left_out,
    list_files,
    plan_shards,
    read_left_out,
    save_files,
)
from graph_metanetworks.zoo.linked import encode_links
from graph_metanetworks.zoo.manifest import read_manifest
from graph_metanetworks.zoo.plan import Range, ShardPlan
from graph_metanetworks.zoo.recipe import Trained
from graph_metanetworks.zoo.shard import PLACE, Shard, TrainedNetwork, encode
from graph_metanetworks.zoo.workers import Progress

FAMILY, DIVERGED = "family", "diverged"
RESERVED = (*PLACE, "file", "network", "config", DIVERGED)  # columns of our own
REFERENCE = f"{FolderRecipe.__module__}:{FolderRecipe.__qualname__}"


def import_folder(
    recipe: FolderRecipe,
    out: Path,
    *,
    labels: Labels | None = None,
    file_column: str | None = None,
    link: bool = False,
    half: bool = False,
    quiet: bool = False,
) -> list[LeftOut]:
    """Make the zoo of a folder, or the missing part of it, and return what was left out."""
    files = list_files(recipe.folder, out)
    names = [one.file for one in files]
    rows = labels.by_file(names, column=file_column, reserved=RESERVED) if labels else None
    requested = Description(
        recipe=REFERENCE,
        options=plain_options(recipe.options()),
        seed=0,
        ranges=(Range(0, len(files), SHARD),),
        half=half,
        versions=versions(),
    )
    importer = _Importer(recipe, out, files, rows, link=link, half=half)

    def plan(description: Description) -> list[ShardPlan]:
        save_files(out, files)
        return plan_shards(files, description.ranges)

    is_new = not (out / DESCRIPTION).exists()  # then the folder is empty, or `fill` refuses it
    fill(out, requested, plan, importer.make, quiet=quiet)
    left_out = read_left_out(out)
    if not any(record.size for record in read_manifest(out).values()):
        if is_new:  # so that the corrected command may use the folder
            shutil.rmtree(out)
        raise ZooError(_nothing_fits(recipe.folder, left_out))
    return left_out


def _nothing_fits(folder: Path, left_out: Sequence[LeftOut]) -> str:
    common = Counter(one.reason.replace(one.file, "") for one in left_out)
    ordered = sorted(left_out, key=lambda one: -common[one.reason.replace(one.file, "")])
    reasons = "\n".join(f"  {one.file}: {one.reason}" for one in ordered[:3])
    more = f"\n  and {len(left_out) - 3:,} more" if len(left_out) > 3 else ""
    return f"none of the {len(left_out):,} checkpoints in {folder} can be read:\n{reasons}{more}"


@dataclass
class _Importer:
    """Makes shards of files. Nothing is kept from one shard to the next but the names of architectures."""

    recipe: FolderRecipe
    out: Path
    files: Sequence[SourceFile]
    rows: Mapping[str, Row] | None
    link: bool
    half: bool
    traced: dict[str, str | None] = field(default_factory=dict)  # why an architecture cannot be traced

    def make(
        self, shards: Sequence[ShardPlan], progress: Progress
    ) -> Generator[tuple[int, Shard], None, None]:
        for shard in shards:
            yield shard.number, self._shard(shard, progress)

    def _shard(self, shard: ShardPlan, progress: Progress) -> Shard:
        networks: list[TrainedNetwork] = []
        sources: dict[int, Source] = {}
        left_out: list[LeftOut] = []
        indices = [index for population in shard.populations for index in population]
        for done, index in enumerate(indices):
            file = self.files[index].file
            try:
                saved = self._read(file)
                networks.append(self._trained(index, file, saved))
                sources[index] = saved.checkpoint.source
            except (TraceError, MissingExtra, OSError) as error:
                left_out.append(LeftOut(file, str(error)))
            progress(shard.number, done + 1)
        add_left_out(self.out, left_out)
        made = encode_links(networks, sources) if self.link else encode(networks, half=self.half)
        return Shard(made.weights, made.table, made.stacks, dropped=len(left_out))

    def _read(self, file: str) -> SavedNetwork:
        if self.rows is not None and file not in self.rows:
            raise TraceError("the table of labels has no row for it")
        saved = self.recipe.reader.read(self.recipe.folder / file, self._row(file))
        name = saved.architecture
        if name not in self.traced:
            self.traced[name] = _problem(saved)
        if problem := self.traced[name]:
            raise TraceError(problem)
        return saved

    def _row(self, file: str) -> Row:
        return dict(self.rows[file]) if self.rows else {}

    def _trained(self, index: int, file: str, saved: SavedNetwork) -> TrainedNetwork:
        builder, row, weights = self.recipe.reader.builder, self._row(file), saved.state_dict
        keeps_config = builder is None or builder.needs_config
        config = FileConfig(
            file,
            saved.architecture,
            json.dumps(saved.checkpoint.config, default=str) if keeps_config else None,
        )
        named = row.get(builder.column) if builder else None
        metrics: dict[str, Any] = {FAMILY: str(named or type(saved.network).__name__), **row}
        metrics[DIVERGED] = not all(bool(x.isfinite().all()) for x in weights.values())
        return TrainedNetwork(index, config, Trained(weights, metrics))


def _problem(saved: SavedNetwork) -> str | None:
    """Return why a network cannot be traced, so that nothing learns from a zoo that contains it."""
    try:
        saved.trace()
    except TraceError as error:
        return f"{type(saved.network).__name__} cannot be traced on {saved.example}: {error}"
    return None
