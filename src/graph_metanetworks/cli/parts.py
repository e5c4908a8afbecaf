"""Units of work for commands on many networks: parts of zoos, and some checkpoints each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
from rich.console import Console
from rich.progress import Progress

from graph_metanetworks.cli.candidates import Candidates
from graph_metanetworks.cli.checkpoint_batches import CheckpointOptions, checkpoint_batches
from graph_metanetworks.console import say
from graph_metanetworks.errors import TaskError
from graph_metanetworks.graph.batch import Batch
from graph_metanetworks.table import listed
from graph_metanetworks.tasks.share_out import share_out
from graph_metanetworks.tasks.zoo_part import NETWORK, PATH, Applied, ZooPart, forget, open_zoo, zoo_parts

T = TypeVar("T")

LARGEST = 256  # networks of a part
PER_WORKER = 4  # parts, so that none waits long for the last


@dataclass(frozen=True)
class CheckpointPart:
    """Some checkpoint files, and how to build their networks."""

    files: tuple[str, ...]  # as results name them
    root: str  # the working directory that they are relative to
    options: CheckpointOptions

    def __len__(self) -> int:
        return len(self.files)

    def apply(self, function: Callable[[Batch], Iterable[T]]) -> Applied[T]:
        """Apply a function, which gives one result per network, to batches of all checkpoints."""
        given = {str(Path(self.root, file)): file for file in self.files}
        results: list[T] = []
        names: list[str] = []
        for batch in checkpoint_batches([*map(Path, given)], self.options):
            named = replace(batch, names=tuple(given.get(name, name) for name in batch.names))
            results += function(named)
            names += named.names
        column = pa.array(names, pa.string())
        others = tuple(file for file in self.files if file not in names)
        return Applied(results, pa.table({NETWORK: column, PATH: column}), others)


Part = ZooPart | CheckpointPart


@dataclass(frozen=True, eq=False)
class NetworksAt:
    """The networks at the paths of a command: zoos first, then checkpoints."""

    candidates: Candidates
    options: CheckpointOptions

    @classmethod
    def find(cls, paths: Sequence[Path], options: CheckpointOptions) -> NetworksAt:
        forget()  # an earlier command of this process may have seen other files
        candidates = Candidates.find(paths)
        if candidates.checkpoints:
            options.require_network(candidates.checkpoints[0])
        return cls(candidates, options)

    def at_index(self, index: int) -> NetworksAt:
        """Return only the network of a zoo with this index."""
        if len(self.candidates.zoos) != 1:
            raise TaskError("--index is for the networks of a zoo.")
        return OneOfZoo(self.candidates, self.options, index)

    def __len__(self) -> int:
        zoos = (len(open_zoo(str(folder.resolve()))) for folder in self.candidates.zoos)
        return sum(zoos) + len(self.candidates.checkpoints)

    def cut(self, workers: int) -> list[Part]:
        """Cut them into parts for a number of workers; one worker gets the largest parts."""
        size = LARGEST if workers == 1 else max(1, min(LARGEST, ceil(len(self) / (PER_WORKER * workers))))
        parts: list[Part] = [part for folder in self.candidates.zoos for part in zoo_parts(folder, size)]
        files = [str(file) for file in self.candidates.checkpoints]
        options, root = self.options.anywhere(), str(Path.cwd())
        for start in range(0, len(files), size):
            parts.append(CheckpointPart(tuple(files[start : start + size]), root, options))
        return parts

    def label_columns(self) -> pa.Schema:
        """Return the columns of the labels of all networks."""
        own = pa.schema([pa.field(NETWORK, pa.string()), pa.field(PATH, pa.string())])
        tables = (open_zoo(str(folder.resolve())).table.schema for folder in self.candidates.zoos)
        labels = [pa.schema([field.remove_metadata() for field in schema]) for schema in tables]
        return pa.unify_schemas([own, *labels], promote_options="permissive")


@dataclass(frozen=True, eq=False)
class OneOfZoo(NetworksAt):
    """One network of a zoo."""

    index: int

    def __len__(self) -> int:
        return 1

    def cut(self, workers: int) -> list[Part]:
        (folder,) = self.candidates.zoos
        indices = open_zoo(str(folder.resolve())).table["index"].to_pylist()
        if self.index not in indices:
            raise TaskError(
                f"{folder} has no network {self.index}: indices go from {min(indices)} to {max(indices)}."
            )
        position = indices.index(self.index)
        return [ZooPart(str(folder), str(folder.resolve()), position, position + 1)]


def shown_parts(
    work: Callable[[Part], Applied[T]], networks: NetworksAt, title: str, *, ray: str | None, quiet: bool
) -> Iterator[Applied[T]]:
    """Do the work on all parts, in order, with a progress bar; say how many networks are left out."""
    total, left_out = len(networks), list[str]()
    with Progress(disable=quiet, transient=True, console=Console(stderr=True)) as progress:
        bar = progress.add_task(title, total=total)
        for done in share_out(work, networks.cut, ray=ray):
            left_out += done.left_out
            progress.update(bar, advance=len(done.results) + len(done.left_out))
            yield done
    if left_out:
        counted = f"left out {len(left_out):,} of {total:,} networks"
        say(f"{counted}: weights are NaN or infinite in {listed(left_out)}.", "yellow", err=True)
