"""Recover shards that are on disk but not in the manifest, because it was lost or a build was killed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from safetensors import SafetensorError

from graph_metanetworks.errors import ZooError
from graph_metanetworks.storage import checksum
from graph_metanetworks.zoo.manifest import ShardRecord, table_path, weights_path
from graph_metanetworks.zoo.plan import ShardPlan
from graph_metanetworks.zoo.shard import Weights

ConfigOf = Callable[[int], Any]  # the config of network `index`
UNREADABLE = (ZooError, OSError, ValueError, LookupError, pa.ArrowException, SafetensorError)


def recover(
    folder: Path, shard: ShardPlan, config_of: ConfigOf, *, drop_diverged: bool
) -> ShardRecord | None:
    """Return the record of a shard if both its files are intact and hold the planned networks."""
    weights, table = weights_path(folder, shard.number), table_path(folder, shard.number)
    try:
        rows = pq.read_table(table)
        stacks = _stacks(rows)
        intact = Weights(weights).stack_sizes() == [{len(stack)} for stack in stacks]
    except UNREADABLE:
        return None
    indices = [index for stack in stacks for index in stack]
    dropped = shard.size - len(indices) if drop_diverged else 0
    if not (intact and shard.holds(indices, dropped) and _has_configs(rows, [config_of(i) for i in indices])):
        return None
    return ShardRecord(
        shard=shard.number,
        stacks=stacks,
        weights=checksum.of_file(weights),
        weights_bytes=weights.stat().st_size,
        table=checksum.of_file(table),
        table_bytes=table.stat().st_size,
        dropped=dropped,
    )


def _stacks(rows: pa.Table) -> list[list[int]]:
    """Return the indices of the networks in each stack."""
    stacks: list[list[int]] = []
    for index, stack, row in zip(
        *(rows[name].to_pylist() for name in ("index", "stack", "row")), strict=True
    ):
        if row == 0:
            stacks.append([])
        if (stack, row) != (len(stacks) - 1, len(stacks[-1])):
            raise ValueError("rows are not in the order of the weights")
        stacks[-1].append(index)
    return stacks


def _has_configs(rows: pa.Table, configs: list[Any]) -> bool:
    values = [asdict(config) for config in configs]
    names = {name for config in values for name in config}
    return names <= set(rows.column_names) and all(
        # compare after a round trip through Arrow, which turns tuples into lists
        pa.array([config.get(name) for config in values]).to_pylist() == rows[name].to_pylist()
        for name in names
    )
