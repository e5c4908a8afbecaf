"""Networks found at paths, in batches: checkpoints, folders of them, zoos."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from torch import nn

from graph_metanetworks.cli.checkpoint import load_checkpoint
from graph_metanetworks.cli.example import Example
from graph_metanetworks.errors import TaskError
from graph_metanetworks.graph.batch import Batch, collate
from graph_metanetworks.tasks.resident import is_finite
from graph_metanetworks.tasks.runner import BATCH
from graph_metanetworks.trace.tracer import trace
from graph_metanetworks.zoo.description import NAME as ZOO_FILE

SUFFIXES = (".safetensors", ".pt", ".pth", ".bin", ".ckpt")


@dataclass(frozen=True)
class Candidates:
    """Zoos and checkpoints. Networks whose weights are not finite are left out with a message."""

    zoos: tuple[Path, ...]
    checkpoints: tuple[Path, ...]

    @classmethod
    def find(cls, paths: Sequence[Path]) -> Candidates:
        zoos, checkpoints = zip(*map(_inside, paths), strict=True)
        return cls(*(tuple(dict.fromkeys(chain(*parts))) for parts in (zoos, checkpoints)))

    def of_checkpoints(self, model: nn.Module, example: Example) -> Iterator[Batch]:
        """Read the checkpoints as weights of one network."""
        graph = trace(model, *example.args, **example.kwargs)
        for start in range(0, len(self.checkpoints), BATCH):
            files = self.checkpoints[start : start + BATCH]
            read = {f: {k: v.clone() for k, v in load_checkpoint(model, f).items()} for f in files}
            kept = {file: weights for file, weights in read.items() if is_finite(weights)}
            if kept:
                yield collate([(graph, weights) for weights in kept.values()], names=[*map(str, kept)])


def _inside(path: Path) -> tuple[list[Path], list[Path]]:
    """Find the zoos and the checkpoints at a path. Files of a zoo are no checkpoints."""
    if path.is_file():
        return [], [path]
    if not path.exists():
        raise TaskError(f"there is no file or folder '{path}'.")
    zoos = sorted(file.parent for file in path.rglob(ZOO_FILE))
    files = sorted(file for file in path.rglob("*") if file.suffix in SUFFIXES and file.is_file())
    checkpoints = [file for file in files if not any(zoo in file.parents for zoo in zoos)]
    if not zoos and not checkpoints:
        raise TaskError(f"the folder {path} has no checkpoints ({', '.join(SUFFIXES)}), and it is no zoo.")
    return zoos, checkpoints
