"""A shard: some networks of a zoo in two files, weights and a table.

Networks with equal parameters are stacked: tensor `"{stack}/{parameter}"` of the weights has a first axis of
networks, and `"{stack}@{step}/{parameter}"` holds them as they were at an earlier step. The table has one row
per network, with the stack and the row in which its weights lie.
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

PLACE = ("index", "stack", "row")  # columns that say which network and where its weights are
ROLE, CONFIG, METRIC = b"role", b"config", b"metric"  # metadata of the other columns


@dataclass(frozen=True, eq=False)
class Network:
    """A trained network and where it came from."""

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


def encode(networks: Sequence[Network], *, half: bool = False) -> Shard:
    """The files of a shard. Equal networks give equal bytes."""
    stacks = list(_by_layout(networks).values())
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
        table=_parquet(stacks),
        stacks=[[network.index for network in stack] for stack in stacks],
    )


def _by_layout(networks: Sequence[Network]) -> dict[Hashable, list[Network]]:
    stacks: dict[Hashable, list[Network]] = {}
    for network in networks:
        trained = network.trained
        tensors = tuple((name, x.dtype, x.shape) for name, x in trained.state_dict.items())
        stacks.setdefault((tensors, tuple(trained.checkpoints)), []).append(network)
    return stacks


def _states(number: int, stack: Sequence[Network]) -> dict[str, list[dict[str, Tensor]]]:
    """State dicts by the beginning of their names: at the end, and at every checkpoint."""
    steps = stack[0].trained.checkpoints
    earlier = {f"{number}@{step}": [n.trained.checkpoints[step] for n in stack] for step in steps}
    return {f"{number}": [n.trained.state_dict for n in stack], **earlier}


def _stored(tensors: Sequence[Tensor], half: bool) -> Tensor:
    stacked = torch.stack([x.detach().cpu() for x in tensors])
    if not half or stacked.dtype != torch.float32:
        return stacked
    smaller = stacked.half()
    # half precision ends at 65,504: what would become infinite stays as it is
    return smaller if torch.equal(smaller.isfinite(), stacked.isfinite()) else stacked


def _parquet(stacks: Sequence[Sequence[Network]]) -> bytes:
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


def _row(network: Network, stack: int, row: int) -> dict[str, Any]:
    place = {"index": network.index, "stack": stack, "row": row}
    config = {field.name: getattr(network.config, field.name) for field in fields(network.config)}
    return {**place, **config, **network.trained.metrics}


def _roles(network: Network) -> dict[str, bytes]:
    config = [field.name for field in fields(network.config)]
    names = [*PLACE, *config, *network.trained.metrics]
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise ZooError(
            f"two columns of the table would be called {', '.join(twice)}: the fields of a config and its "
            f"metrics need names of their own, other than {', '.join(PLACE)}."
        )
    return dict.fromkeys(config, CONFIG) | dict.fromkeys(network.trained.metrics, METRIC)


def unreadable(path: Path, error: Exception) -> ZooError:
    return ZooError(
        f"{path} cannot be read: {error}. `gmn zoo check {path.parent}` says what is damaged; the command "
        "that built the zoo rebuilds only that."
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

    def stack_sizes(self) -> list[set[int]]:
        """For each stack, how many networks its tensors have: all the same number, if the file is whole."""
        return [
            {
                self._file.get_slice(f"{prefix}/{name}").get_shape()[0]
                for prefix in (f"{stack}", *(f"{stack}@{step}" for step in layout["steps"]))
                for name in layout["parameters"]
            }
            for stack, layout in enumerate(self._layouts)
        ]

    def steps(self, stack: int) -> tuple[int, ...]:
        """The steps of training at which the networks of a stack were kept."""
        return tuple(self._layouts[stack]["steps"])

    def size(self, stack: int) -> int:
        """How many numbers the state dict of each network of a stack has."""
        names = self._layouts[stack]["parameters"]
        return sum(math.prod(self._file.get_slice(f"{stack}/{name}").get_shape()[1:]) for name in names)

    def state_dict(self, stack: int, row: int, *, step: int | None = None) -> dict[str, Tensor]:
        """The weights of a network, as a copy: what is done to them does not touch the zoo."""
        prefix = f"{stack}" if step is None else f"{stack}@{step}"
        names = self._layouts[stack]["parameters"]
        return {name: self._read(f"{prefix}/{name}", row) for name in names}

    def _read(self, name: str, row: int) -> Tensor:
        tensor = self._file.get_slice(name)[row].clone()
        return tensor.float() if self._half and tensor.dtype == torch.float16 else tensor
