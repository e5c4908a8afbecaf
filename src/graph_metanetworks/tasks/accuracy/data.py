"""Networks of a zoo with the accuracies that are to be predicted, in batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from graph_metanetworks.errors import TaskError
from graph_metanetworks.graph.batch import Batch
from graph_metanetworks.tasks.traced_zoo import TracedZoo

LABEL = "test_accuracy"
Positions = Sequence[int] | np.ndarray


class LabelledZoo(Dataset[tuple[Batch, Tensor]]):
    """A traced zoo with labels: `data[[0, 5, 7]]` is a batch of networks and their accuracies `[3]`.

    Networks whose weights are not finite are not `usable`: training of some diverges.
    """

    def __init__(self, networks: TracedZoo, label: str = LABEL) -> None:
        self.networks, self.label = networks, label
        self.labels = read_labels(networks.zoo.table, label, where=str(networks.zoo.folder))
        self.usable = networks.finite

    def __len__(self) -> int:
        return len(self.networks)

    def __getitem__(self, positions: Positions) -> tuple[Batch, Tensor]:
        return self.networks.batch(positions), torch.from_numpy(self.labels[np.asarray(positions)])

    def in_batches(self, positions: Positions, size: int) -> Iterator[tuple[Batch, Tensor]]:
        """All the networks at these positions, in order."""
        return (self[positions[start : start + size]] for start in range(0, len(positions), size))


def read_labels(table: pa.Table, label: str, *, where: str) -> np.ndarray:  # [N] float32
    """A column of accuracies, after checking that they are accuracies."""
    if label not in table.column_names:
        raise TaskError(
            f"{where} has no column '{label}' to predict; its columns are {', '.join(table.column_names)}. "
            "Name one with --label."
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
    if labels.min() < 0 or labels.max() > 1:
        raise TaskError(
            f"'{label}' goes from {labels.min():.4g} to {labels.max():.4g}, and accuracies lie between 0 and "
            "1: name another column with --label."
        )
    return np.array(labels)  # a copy that torch may share


def require_shares(batch_size: int, processes: int) -> None:
    """Processes that train together have equal parts of each batch."""
    if batch_size % processes:
        raise TaskError(
            f"a batch of {batch_size} networks cannot be shared equally by {processes} processes: choose a "
            f"--batch-size that is a multiple of {processes}."
        )


@dataclass(eq=False)
class Rounds(Sampler[np.ndarray]):
    """The batches of a round: training is an endless stream of shuffled networks, cut into rounds.

    Round `k` is a function of the seed and `k`, so that a run that is resumed sees what it would have seen.
    Processes that train together share each batch: they have equal parts of it.
    """

    positions: np.ndarray
    batch_size: int
    steps: int  # batches of a round
    seed: int
    rank: int = 0
    world: int = 1
    round: int = 0

    def __post_init__(self) -> None:
        require_shares(self.batch_size, self.world)

    def set_epoch(self, epoch: int) -> None:
        """Lightning calls rounds epochs."""
        self.round = epoch

    def __len__(self) -> int:
        return self.steps

    def __iter__(self) -> Iterator[np.ndarray]:
        for step in range(self.round * self.steps, (self.round + 1) * self.steps):
            yield self.batch(step)[self.rank :: self.world]

    def batch(self, step: int) -> np.ndarray:
        """The networks of a step, in all processes; passes over the data follow each other without a seam."""
        numbers = np.arange(step * self.batch_size, (step + 1) * self.batch_size)
        passes, places = np.divmod(numbers, len(self.positions))
        orders = {number: self._order(number) for number in np.unique(passes).tolist()}
        return np.array([orders[number][place] for number, place in zip(passes, places, strict=True)])

    def _order(self, number: int) -> np.ndarray:
        return np.random.default_rng((self.seed, number)).permutation(self.positions)


@dataclass(frozen=True, eq=False)
class InOrder(Sampler[np.ndarray]):
    """Each network once, in batches; processes that evaluate together have different ones."""

    positions: np.ndarray
    batch_size: int
    rank: int = 0
    world: int = 1

    def __len__(self) -> int:
        return -(-len(self._own) // self.batch_size)

    def __iter__(self) -> Iterator[np.ndarray]:
        for start in range(0, len(self._own), self.batch_size):
            yield self._own[start : start + self.batch_size]

    @property
    def _own(self) -> np.ndarray:
        return self.positions[self.rank :: self.world]


def loader(data: LabelledZoo, batches: Sampler[np.ndarray]) -> DataLoader[tuple[Batch, Tensor]]:
    """Batches as a sampler says. In this process: weights are memory-mapped, reading is quick."""
    return DataLoader(data, batch_size=None, sampler=batches, collate_fn=_same)


def _same(batch: Any) -> Any:
    return batch
