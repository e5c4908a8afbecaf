"""The data of a task: networks of a zoo with their targets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from torch.utils.data import Dataset

from graph_metanetworks.errors import TaskError
from graph_metanetworks.graph.batch import Batch
from graph_metanetworks.tasks.traced_zoo import TracedZoo
from graph_metanetworks.training.job import in_batches

Positions = Sequence[int] | np.ndarray


class Targets(Protocol):
    """Prediction targets: a tensor of numbers or classes, or an object that makes images on demand."""

    def __getitem__(self, positions: Any, /) -> Any: ...


class TaskData(Dataset[tuple[Batch, Any]]):
    """Networks with targets: `data[[0, 5, 7]]` is a batch of three networks and their targets.

    Args:
        networks: the zoo, traced.
        targets: indexed by an array of positions in the zoo.
        usable: mask of the networks to use; by default those whose weights are finite.
    """

    def __init__(self, networks: TracedZoo, targets: Targets, usable: np.ndarray | None = None) -> None:
        self.networks, self.targets = networks, targets
        self.usable = networks.finite if usable is None else usable

    def __len__(self) -> int:
        return len(self.networks)

    def __getitem__(self, positions: Positions) -> tuple[Batch, Any]:
        return self.networks.batch(positions), self.targets[np.asarray(positions)]

    def in_batches(self, positions: np.ndarray, size: int) -> Iterator[tuple[Batch, Any]]:
        """Iterate over the networks at these positions, in order."""
        return in_batches(self, positions, size)

    @property
    def num_unusable(self) -> int:
        return int((~self.usable).sum())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.networks!r}, {self.num_unusable:,} networks unusable)"


def read_numbers(
    table: pa.Table, label: str, *, where: str, option: str = "--label"
) -> np.ndarray:  # [N] float32
    """Read a column of finite numbers. Errors name the place of the table and the option for the column."""
    if label not in table.column_names:
        raise TaskError(
            f"{where} has no column '{label}' to predict; its columns are {', '.join(table.column_names)}. "
            f"Name one with {option}."
        )
    try:
        labels = table[label].cast(pa.float32()).fill_null(float("nan")).to_numpy()
    except pa.ArrowInvalid:
        raise TaskError(f"the column '{label}' of {where} has no numbers.") from None
    missing = int((~np.isfinite(labels)).sum())
    if missing:
        raise TaskError(
            f"{missing:,} of {len(labels):,} networks of {where} have no '{label}'. Label them all, or make "
            "a zoo without them: gmn.Zoo.open(folder).filter(...)."
        )
    return np.array(labels)  # a copy that torch may share
