"""Units of work for commands on many networks: parts of zoos, and some checkpoints each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
from rich.console import Console
from rich.progress import Progress

from graph_metanetworks.checkpoints.networks import NetworkReader
from graph_metanetworks.cli.candidates import Candidates
from graph_metanetworks.cli.left_out import nothing_left, say_left_out, say_not_finite
from graph_metanetworks.errors import TaskError
from graph_metanetworks.tasks.checkpoint_part import CheckpointPart, Row, label_table
from graph_metanetworks.tasks.share_out import share_out
from graph_metanetworks.tasks.zoo_part import NOT_FINITE, Applied, ZooPart, forget, open_zoo, zoo_parts
from graph_metanetworks.zoo.from_folder.labels import Labels
from graph_metanetworks.zoo.from_folder.sources import LeftOut

T = TypeVar("T")

LARGEST = 256  # networks of a part
PER_WORKER = 4  # parts, so that none waits long for the last


Part = ZooPart | CheckpointPart


@dataclass(frozen=True, eq=False)
class NetworksAt:
    """The networks at the paths of a command: zoos first, then checkpoints."""

    candidates: Candidates
    reader: NetworkReader
    rows: Mapping[str, Row] | None = None  # of a table, by checkpoint
    left_out: list[LeftOut] = field(default_factory=list)  # so far: they cannot be read, or are not finite

    @classmethod
    def find(cls, paths: Sequence[Path], reader: NetworkReader, labels: Path | None = None) -> NetworksAt:
        """Find networks; a table of labels has a row for each checkpoint."""
        forget()  # an earlier command of this process may have seen other files
        candidates = Candidates.find(paths)
        files = [str(file) for file in candidates.checkpoints]
        return cls(candidates, reader, Labels.read(labels).by_file(files) if labels and files else None)

    def at_index(self, index: int) -> NetworksAt:
        """Return only the network of a zoo with this index."""
        if len(self.candidates.zoos) != 1:
            raise TaskError("--index is for the networks of a zoo.")
        return OneOfZoo(self.candidates, self.reader, index=index)

    def __len__(self) -> int:
        zoos = (len(open_zoo(str(folder.resolve()))) for folder in self.candidates.zoos)
        return sum(zoos) + len(self.candidates.checkpoints)

    def cut(self, workers: int) -> list[Part]:
        """Cut them into parts for a number of workers; one worker gets the largest parts."""
        size = LARGEST if workers == 1 else max(1, min(LARGEST, ceil(len(self) / (PER_WORKER * workers))))
        parts: list[Part] = [part for folder in self.candidates.zoos for part in zoo_parts(folder, size)]
        files = [str(file) for file in self.candidates.checkpoints]
        for start in range(0, len(files), size):
            own = tuple(files[start : start + size])
            rows = None if self.rows is None else {name: self.rows[name] for name in own if name in self.rows}
            parts.append(CheckpointPart(own, str(Path.cwd()), self.reader, rows))
        return parts

    def label_columns(self) -> pa.Schema:
        """Return the columns of the labels of all networks."""
        rows = self.rows or {}
        tables = [open_zoo(str(folder.resolve())).table.schema for folder in self.candidates.zoos]
        plain = [pa.schema([field.remove_metadata() for field in schema]) for schema in tables]
        own = label_table([*rows], [*rows.values()]).schema
        try:
            return pa.unify_schemas([own, *plain], promote_options="permissive")
        except pa.ArrowException as error:
            raise TaskError(
                f"labels of the same name have different types: {error}. Name fewer paths."
            ) from error

    def require(self, found: bool, verb: str) -> None:
        """Refuse to go on without results, and say why there are none."""
        if not found:
            raise TaskError(nothing_left(verb, self.left_out))

    def report_left_out(self) -> None:
        """Say which networks were left out, and why."""
        say_not_finite([one for one in self.left_out if one.reason == NOT_FINITE], len(self))
        others = [one for one in self.left_out if one.reason != NOT_FINITE]
        say_left_out(others, len(self.candidates.checkpoints), "checkpoint")


@dataclass(frozen=True, eq=False)
class OneOfZoo(NetworksAt):
    """One network of a zoo."""

    index: int = 0

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
    """Do the work on all parts, in order, with a progress bar; note which networks are left out."""
    with Progress(disable=quiet, transient=True, console=Console(stderr=True)) as progress:
        bar = progress.add_task(title, total=len(networks))
        for done in share_out(work, networks.cut, ray=ray):
            networks.left_out.extend(done.left_out)
            progress.update(bar, advance=len(done.results) + len(done.left_out))
            yield done
