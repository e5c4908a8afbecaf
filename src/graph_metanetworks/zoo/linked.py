"""Shards that reference checkpoints instead of copying them: where each is, and how its weights are read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from graph_metanetworks.checkpoints.checkpoint import Source
from graph_metanetworks.checkpoints.read import files_of, read_again
from graph_metanetworks.errors import ZooError
from graph_metanetworks.storage import checksum
from graph_metanetworks.zoo.shard import Shard, TrainedNetwork, Weights, by_layout, table_of

LINKS = "links"  # key of the metadata of such a shard


@dataclass(frozen=True)
class LinkedFile:
    """A file with the size, time and checksum that it had when it was imported."""

    path: str
    bytes: int
    modified: int  # nanoseconds
    checksum: str

    @classmethod
    def of(cls, path: Path) -> LinkedFile:
        known = path.stat()
        return cls(str(path), known.st_size, known.st_mtime_ns, checksum.of_file(path))

    def problem(self, *, thorough: bool) -> str | None:
        """Return how the file has changed. If it looks as before, the checksum is compared if `thorough`."""
        path = Path(self.path)
        if not path.is_file():
            return f"{path}: missing, and the zoo only references it"
        known = path.stat()
        same = (known.st_size, known.st_mtime_ns) == (self.bytes, self.modified)
        if same and not thorough:
            return None
        if known.st_size == self.bytes and checksum.of_file(path) == self.checksum:
            return None
        return f"{path}: changed since it was imported"


def encode_links(networks: Sequence[TrainedNetwork], sources: Mapping[int, Source]) -> Shard:
    """Encode networks as a shard that references their files.

    Args:
        sources: how the weights of each network, by its index, were read.
    """
    stacks = list(by_layout(networks).values())
    layouts, links, tensors = [], [], {}
    for number, stack in enumerate(stacks):
        state = stack[0].trained.state_dict
        layouts.append({"parameters": list(state), "steps": []})
        rows = [sources[network.index] for network in stack]
        links.append(
            {
                "tensors": {name: [list(x.shape), str(x.dtype)] for name, x in state.items()},
                "rows": [_row(source) for source in rows],
            }
        )
        filled = [name for name in state if any(name not in source.names for source in rows)]
        for name in filled:  # entries that the files do not have
            tensors[f"{number}/{name}"] = torch.stack([one.trained.state_dict[name] for one in stack])
    return Shard(
        weights=save(tensors, {"stacks": json.dumps(layouts), LINKS: json.dumps(links)}),
        table=table_of(stacks),
        stacks=[[network.index for network in stack] for stack in stacks],
    )


class LinkedWeights(Weights):
    """The weights of a shard that references files."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._links = json.loads(self._file.metadata()[LINKS])
        self._stored = set(self._file.keys())

    def shapes(self, stack: int) -> dict[str, tuple[int, ...]]:
        return {name: tuple(shape) for name, (shape, _) in self._links[stack]["tensors"].items()}

    def state_dict(self, stack: int, row: int, *, step: int | None = None) -> dict[str, Tensor]:
        known, link = self._links[stack]["tensors"], self._links[stack]["rows"][row]
        for problem in _problems(link, thorough=False):
            raise ZooError(f"{problem}. Restore it, or import the folder again.")
        stored = {name for name in known if f"{stack}/{name}" in self._stored}
        names = {name: saved for name, saved in link["names"].items() if name not in stored}
        read = read_again(Path(link["path"]), link["key"], names)
        return {
            name: self._read(f"{stack}/{name}", row)
            if name in stored
            else read[name].to(_dtype(dtype)).clone()
            for name, (_, dtype) in known.items()
        }

    def problems(self) -> list[str]:
        """Return a line for each file that is missing or has changed. Reads all of them."""
        rows = [row for stack in self._links for row in stack["rows"]]
        return [problem for row in rows for problem in _problems(row, thorough=True)]


def _row(source: Source) -> dict[str, Any]:
    return {
        "path": str(source.path),
        "key": list(source.key),
        "names": dict(source.names),
        "files": [asdict(LinkedFile.of(path)) for path in files_of(source.path)],
    }


def _problems(link: Mapping[str, Any], *, thorough: bool) -> list[str]:
    found = (LinkedFile(**file).problem(thorough=thorough) for file in link["files"])
    return [problem for problem in found if problem]


def _dtype(name: str) -> torch.dtype:
    return getattr(torch, name.removeprefix("torch."))


def open_weights(path: Path, *, half: bool = False) -> Weights:
    """Open the weights of a shard, which are in it or in the files that it references."""
    weights = Weights(path, half=half)
    return LinkedWeights(path) if weights.is_linked else weights
