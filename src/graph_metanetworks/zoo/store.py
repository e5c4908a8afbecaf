"""The files of a zoo, read lazily."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from graph_metanetworks.errors import ZooError
from graph_metanetworks.zoo.description import Description
from graph_metanetworks.zoo.linked import open_weights
from graph_metanetworks.zoo.manifest import ShardRecord, read_manifest, table_path, weights_path
from graph_metanetworks.zoo.recipe import Recipe
from graph_metanetworks.zoo.registry import recipe_from
from graph_metanetworks.zoo.shard import ROLE, Weights, unreadable

READERS = 8  # threads that read tables
OPEN_SHARDS = 64  # files of weights that stay mapped


@dataclass(frozen=True, slots=True)
class Location:
    """The index of a network and the location of its weights."""

    index: int
    shard: int
    stack: int
    row: int


class Store:
    """The shards of a zoo, with their tables concatenated in order of the network index."""

    def __init__(self, folder: Path, *, recipe: Recipe[Any] | None = None) -> None:
        self.folder = folder
        self.description = Description.load(folder)
        self.records = list(read_manifest(folder).values())
        found = _locations(self.records)  # in the order of the concatenated tables
        self._order = np.argsort(found[:, 0], kind="stable")
        self.locations = found[self._order]  # [N, 4]
        self._recipe = recipe
        self._weights: dict[int, Weights] = {}

    def __getstate__(self) -> dict[str, Any]:
        # memory maps are not pickled; the workers of a DataLoader open their own
        return self.__dict__ | {"_weights": {}}

    @cached_property
    def recipe(self) -> Recipe[Any]:
        if self._recipe is not None:
            return self._recipe
        try:
            return recipe_from(self.description.recipe, self.description.options)
        except ZooError as error:
            raise ZooError(
                f"{error} The weights and the table of {self.folder} can be read without the recipe. To "
                "build networks, open the zoo with Zoo.open(folder, recipe=...)."
            ) from error

    @cached_property
    def table(self) -> pa.Table:
        with ThreadPoolExecutor(READERS) as pool:
            tables = list(
                pool.map(self._read_table, (record.shard for record in self.records if record.size))
            )
        if not tables:
            return pa.table({"index": pa.array([], pa.int64())})
        together = pa.concat_tables(tables, promote_options="permissive")
        return together.take(self._order).combine_chunks()

    def location(self, row: int) -> Location:
        return Location(*self.locations[row].tolist())

    def weights(self, shard: int) -> Weights:
        if shard not in self._weights:
            if len(self._weights) >= OPEN_SHARDS:
                del self._weights[next(iter(self._weights))]
            path = weights_path(self.folder, shard)
            self._weights[shard] = open_weights(path, half=self.description.half)
        return self._weights[shard]

    def values(self, row: int, role: bytes) -> dict[str, Any]:
        """Return the values of a row in the columns with this role."""
        return {name: column[row].as_py() for name, column in self._columns.get(role, {}).items()}

    @cached_property
    def _columns(self) -> dict[bytes, dict[str, pa.ChunkedArray]]:
        """Return columns by role and name."""
        columns: dict[bytes, dict[str, pa.ChunkedArray]] = {}
        for field in self.table.schema:
            columns.setdefault((field.metadata or {}).get(ROLE, b""), {})[field.name] = self.table[field.name]
        return columns

    def _read_table(self, shard: int) -> pa.Table:
        path = table_path(self.folder, shard)
        try:
            return pq.read_table(path, use_threads=False).drop_columns(["stack", "row"])
        except (OSError, pa.ArrowException, KeyError) as error:
            raise unreadable(path, error) from error


def _locations(records: Iterable[ShardRecord]) -> np.ndarray:  # [N, 4]
    parts = [
        np.stack([np.array(stack), *np.broadcast_arrays(record.shard, number, np.arange(len(stack)))], axis=1)
        for record in records
        for number, stack in enumerate(record.stacks)
    ]
    return np.concatenate(parts) if parts else np.zeros((0, 4), dtype=np.int64)
