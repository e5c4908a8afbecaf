"""Shards: some networks of a zoo in two files, one for weights and one for the table.

Networks with equal parameters are stacked: the tensor `"{stack}/{parameter}"` has networks along its first
axis, and `"{stack}@{step}/{parameter}"` holds their weights at an earlier step. The table has one row per
network, with the stack and the row of its weights.
"""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, fields
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from graph_metanetworks.errors import ZooError
from graph_metanetworks.zoo.recipe import Trained

PLACE = ("index", "stack", "row")  # columns for the network and the location of its weights
ROLE, CONFIG, METRIC = b"role", b"config", b"metric"  # metadata of the other columns


@dataclass(frozen=True, eq=False)
class TrainedNetwork:
    """A trained network with its index and its config."""

    index: int
    config: Any
    trained: Trained


@dataclass(frozen=True)
class Shard:
    """The files of a shard as bytes, and the networks in each stack."""

    weights: bytes
    table: bytes
    stacks: list[list[int]]  # indices of networks
    dropped: int = 0


def encode(networks: Sequence[TrainedNetwork], *, half: bool = False) -> Shard:
    """Encode networks as the files of a shard. Equal networks give equal bytes."""
    stacks = list(by_layout(networks).values())
    tensors: dict[str, Tensor] = {}
    layouts = []
    for number, stack in enumerate(stacks):
        first = stack[0].trained
        layouts.append({"parameters": list(first.state_dict), "steps": list(first.checkpoints)})
        for prefix, states in _states(number, stack).items():
            for name in first.state_dict:
                tensors[f"{prefix}/{name}"] = _stored([state[name] for state in states], half)
    return Shard(
        weights=save(tensors, {"stacks": json.dumps(layouts)}),
        table=table_of(stacks),
        stacks=[[network.index for network in stack] for stack in stacks],
    )


def by_layout(networks: Sequence[TrainedNetwork]) -> dict[Hashable, list[TrainedNetwork]]:
    """Group networks whose parameters can be stacked."""
    stacks: dict[Hashable, list[TrainedNetwork]] = {}
    for network in networks:
        trained = network.trained
        tensors = tuple((name, x.dtype, x.shape) for name, x in trained.state_dict.items())
        stacks.setdefault((tensors, tuple(trained.checkpoints)), []).append(network)
    return stacks


def _states(number: int, stack: Sequence[TrainedNetwork]) -> dict[str, list[dict[str, Tensor]]]:
    """Return the final state dicts and those of every checkpoint, by the prefix of their tensors."""
    steps = stack[0].trained.checkpoints
    earlier = {f"{number}@{step}": [n.trained.checkpoints[step] for n in stack] for step in steps}
    return {f"{number}": [n.trained.state_dict for n in stack], **earlier}


def _stored(tensors: Sequence[Tensor], half: bool) -> Tensor:
    stacked = torch.stack([x.detach().cpu() for x in tensors])
    if not half or stacked.dtype != torch.float32:
        return stacked
    smaller = stacked.half()
    # half precision overflows at 65,504; such tensors stay in single precision
    return smaller if torch.equal(smaller.isfinite(), stacked.isfinite()) else stacked


def table_of(stacks: Sequence[Sequence[TrainedNetwork]]) -> bytes:
    """Encode the table of a shard."""
    rows = [_row(network, s, r) for s, stack in enumerate(stacks) for r, network in enumerate(stack)]
    columns: dict[str, bytes] = {}
    for stack in stacks:
        for network in stack:
            columns |= _roles(network)
    schema = pa.schema([pa.field(name, pa.int64()) for name in PLACE])
    for name, role in columns.items():
        values = pa.array([row.get(name) for row in rows])
        schema = schema.append(pa.field(name, values.type, metadata={ROLE: role}))
    buffer = BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), buffer)
    return buffer.getvalue()


def _row(network: TrainedNetwork, stack: int, row: int) -> dict[str, Any]:
    place = {"index": network.index, "stack": stack, "row": row}
    config = {name: getattr(network.config, name) for name in _config_columns(network.config)}
    return {**place, **config, **network.trained.metrics}


def _roles(network: TrainedNetwork) -> dict[str, bytes]:
    config = _config_columns(network.config)
    names = [*PLACE, *config, *network.trained.metrics]
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise ZooError(
            f"two columns of the table would be called {', '.join(twice)}: fields of the config and metrics "
            f"need distinct names, other than {', '.join(PLACE)}."
        )
    return dict.fromkeys(config, CONFIG) | dict.fromkeys(network.trained.metrics, METRIC)


def _config_columns(config: Any) -> list[str]:
    return [field.name for field in fields(config) if field.metadata.get("stored", True)]


def unreadable(path: Path, error: Exception) -> ZooError:
    return ZooError(
        f"{path} cannot be read: {error}. `gmn zoo check {path.parent}` lists damaged files. Rerun the "
        "command that built the zoo to rebuild only those."
    )


class Weights:
    """The weights of a shard, memory-mapped."""

    def __init__(self, path: Path, *, half: bool = False) -> None:
        try:
            self._file = safe_open(path, framework="pt")
            self._layouts = json.loads(self._file.metadata()["stacks"])
        except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
            raise unreadable(path, error) from error
        self._half = half

    @property
    def is_linked(self) -> bool:
        """Whether the weights are in files that the shard references."""
        return "links" in self._file.metadata()

    def shapes(self, stack: int) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the tensors of each network of a stack."""
        names = self._layouts[stack]["parameters"]
        return {name: tuple(self._file.get_slice(f"{stack}/{name}").get_shape()[1:]) for name in names}

    def stack_sizes(self) -> list[set[int]]:
        """Return for each stack the numbers of networks in its tensors, all equal in an intact file."""
        return [
            {
                self._file.get_slice(f"{prefix}/{name}").get_shape()[0]
                for prefix in (f"{stack}", *(f"{stack}@{step}" for step in layout["steps"]))
                for name in layout["parameters"]
            }
            for stack, layout in enumerate(self._layouts)
        ]

    def steps(self, stack: int) -> tuple[int, ...]:
        """Return the training steps at which checkpoints of a stack were saved."""
        return tuple(self._layouts[stack]["steps"])

    def size(self, stack: int) -> int:
        """Return the number of values in the state dict of each network of a stack."""
        return sum(math.prod(shape) for shape in self.shapes(stack).values())

    def state_dict(self, stack: int, row: int, *, step: int | None = None) -> dict[str, Tensor]:
        """Return a copy of the weights of a network, which may be modified."""
        prefix = f"{stack}" if step is None else f"{stack}@{step}"
        names = self._layouts[stack]["parameters"]
        return {name: self._read(f"{prefix}/{name}", row) for name in names}

    def _read(self, name: str, row: int) -> Tensor:
        tensor = self._file.get_slice(name)[row].clone()
        return tensor.float() if self._half and tensor.dtype == torch.float16 else tensor
