"""Checkpoints as units of work, which any process can do. What cannot be read is left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
from torch import Tensor

from graph_metanetworks.checkpoints.networks import NetworkReader
from graph_metanetworks.errors import TraceError
from graph_metanetworks.extras import MissingExtra
from graph_metanetworks.graph.batch import Batch, collate
from graph_metanetworks.graph.parameter_graph import ParameterGraph
from graph_metanetworks.tasks.resident import is_finite
from graph_metanetworks.tasks.zoo_part import BATCH, NETWORK, NOT_FINITE, PATH, Applied, remembered
from graph_metanetworks.zoo.from_folder.sources import BYTES, LeftOut

T = TypeVar("T")
Row = Mapping[str, Any]  # of a table
Network = tuple[str, ParameterGraph, dict[str, Tensor]]  # with the name of its file


@dataclass(frozen=True)
class CheckpointPart:
    """Some checkpoints, of any mix of architectures, and how they are read."""

    files: tuple[str, ...]  # as results name them
    root: str  # the working directory that they are relative to
    reader: NetworkReader
    rows: Mapping[str, Row] | None = None  # of a table, by file; files without one are left out

    def __len__(self) -> int:
        return len(self.files)

    def apply(self, function: Callable[[Batch], Iterable[T]]) -> Applied[T]:
        """Apply a function, which gives one result per network, to batches of all checkpoints."""
        results: list[T] = []
        names: list[str] = []
        left_out: list[LeftOut] = []
        for networks in _grouped(self._read(left_out)):
            own = [name for name, _, _ in networks]
            results += function(collate([(graph, weights) for _, graph, weights in networks], names=own))
            names += own
        rows = [self.rows[name] if self.rows else {} for name in names]
        return Applied(results, label_table(names, rows), tuple(left_out))

    def _read(self, left_out: list[LeftOut]) -> Iterator[Network]:
        """Yield the networks, and append those that cannot be used to a list."""
        for file in self.files:
            try:
                if self.rows is not None and file not in self.rows:
                    raise TraceError("the table has no row for it")
                saved = self.reader.read(Path(self.root, file), self.rows and self.rows[file])
                graph = remembered(saved.architecture, saved.trace)
                if not is_finite(saved.state_dict):
                    raise TraceError(NOT_FINITE)
            except (TraceError, MissingExtra, OSError) as error:
                left_out.append(LeftOut(file, str(error)))
                continue
            yield file, graph, saved.state_dict


def label_table(names: Sequence[str], rows: Sequence[Row]) -> pa.Table:
    """Return the labels of checkpoints: their names, and what a table says about them."""
    column = pa.array(names, pa.string())
    others = dict.fromkeys(name for row in rows for name in row if name not in (NETWORK, PATH))
    labels = {name: _array([row.get(name) for row in rows]) for name in others}
    return pa.table({NETWORK: column, PATH: column, **labels})


def _array(values: list[Any]) -> pa.Array:
    try:
        return pa.array(values)
    except pa.ArrowException:  # values of several types, as in JSON
        return pa.array([None if value is None else str(value) for value in values], pa.string())


def _grouped(networks: Iterable[Network]) -> Iterator[list[Network]]:
    """Group networks to run them together: few if they are large, because they are held in memory."""
    group: list[Network] = []
    size = 0
    for network in networks:
        group.append(network)
        size += sum(value.nbytes for value in network[2].values())
        if len(group) == BATCH or size >= BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group
