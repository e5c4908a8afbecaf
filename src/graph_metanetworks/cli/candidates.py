"""Networks found at paths, in batches: checkpoints, folders of them, zoos."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any

from torch import Tensor

from graph_metanetworks.checkpoints.find import find_checkpoints
from graph_metanetworks.checkpoints.formats import SUFFIXES
from graph_metanetworks.checkpoints.huggingface import is_model_folder
from graph_metanetworks.checkpoints.networks import NetworkReader
from graph_metanetworks.console import say
from graph_metanetworks.errors import TaskError, TraceError
from graph_metanetworks.extras import MissingExtra
from graph_metanetworks.graph.batch import Batch, collate
from graph_metanetworks.graph.parameter_graph import ParameterGraph
from graph_metanetworks.tasks.runner import BATCH
from graph_metanetworks.tasks.traced_zoo import TracedZoo, is_finite
from graph_metanetworks.zoo.description import NAME as ZOO_FILE
from graph_metanetworks.zoo.from_folder.sources import LeftOut
from graph_metanetworks.zoo.zoo import Zoo

GRAPHS = 64  # that are kept, so that networks of one architecture are traced once
NOT_FINITE = "weights are NaN or infinite"
SHOWN = 10  # files that were left out


@dataclass(frozen=True)
class Candidates:
    """Zoos and checkpoints. What cannot be read, or has weights that are not finite, is left out."""

    zoos: tuple[Path, ...]
    checkpoints: tuple[Path, ...]
    left_out: list[LeftOut] = field(default_factory=list)  # so far

    @classmethod
    def find(cls, paths: Sequence[Path]) -> Candidates:
        zoos, checkpoints = zip(*map(_inside, paths), strict=True)
        return cls(tuple(dict.fromkeys(chain(*zoos))), tuple(dict.fromkeys(chain(*checkpoints))))

    def of_zoos(self) -> Iterator[Batch]:
        for folder in self.zoos:
            traced = TracedZoo(Zoo.open(folder))
            usable = traced.finite.nonzero()[0]
            if broken := len(traced) - len(usable):
                reason = f"left out {broken:,} of {len(traced):,} networks of {folder}: {NOT_FINITE}."
                say(reason, "yellow", err=True)
            for start in range(0, len(usable), BATCH):
                yield traced.batch(usable[start : start + BATCH])

    def of_checkpoints(
        self, reader: NetworkReader, rows: Mapping[str, Mapping[str, Any]] | None = None
    ) -> Iterator[Batch]:
        """Read the checkpoints, of any mix of architectures.

        Args:
            rows: of a table, by the path of a checkpoint, for builders that need them.
        """
        networks = self._read(reader, rows)
        while own := list(islice(networks, BATCH)):
            yield collate([(graph, weights) for _, graph, weights in own], names=[str(f) for f, _, _ in own])

    def _read(
        self, reader: NetworkReader, rows: Mapping[str, Mapping[str, Any]] | None
    ) -> Iterator[tuple[Path, ParameterGraph, dict[str, Tensor]]]:
        graphs: dict[str, ParameterGraph] = {}
        for file in self.checkpoints:
            try:
                if rows is not None and str(file) not in rows:
                    raise TraceError("the table has no row for it")
                saved = reader.read(file, rows and rows[str(file)])
                if saved.architecture not in graphs:
                    if len(graphs) == GRAPHS:
                        del graphs[next(iter(graphs))]
                    graphs[saved.architecture] = saved.trace()
                if not is_finite(saved.state_dict):
                    raise TraceError(NOT_FINITE)
            except (TraceError, MissingExtra, OSError) as error:
                self.left_out.append(LeftOut(str(file), str(error)))
                continue
            yield file, graphs[saved.architecture], saved.state_dict

    def report_left_out(self) -> None:
        """List the checkpoints that were left out, and why."""
        say_left_out(self.left_out, len(self.checkpoints), "checkpoint")


def say_left_out(left_out: Sequence[LeftOut], total: int, noun: str, *, more: str = "") -> None:
    """List files that were left out, the first of them if there are many."""
    if not left_out:
        return
    things = f"{len(left_out):,} {noun}{'' if len(left_out) == 1 else 's'}"
    say(f"left out {things} of {total:,}:", "yellow", err=True)
    for one in left_out[:SHOWN]:
        say(f"  {one.line}", "yellow", err=True)
    if len(left_out) > SHOWN:
        say(f"  and {len(left_out) - SHOWN:,} more{more}", "yellow", err=True)


def _inside(path: Path) -> tuple[list[Path], list[Path]]:
    """Find the zoos and the checkpoints at a path. Files of a zoo are no checkpoints."""
    if path.is_file() or is_model_folder(path):
        return [], [path]
    if not path.exists():
        raise TaskError(f"there is no file or folder '{path}'.")
    zoos = sorted(file.parent for file in path.rglob(ZOO_FILE))
    checkpoints = find_checkpoints(path, skip=lambda folder: folder in zoos)
    if not zoos and not checkpoints:
        raise TaskError(f"the folder {path} has no checkpoints ({', '.join(SUFFIXES)}), and it is no zoo.")
    return zoos, checkpoints
