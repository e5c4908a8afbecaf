"""Which networks each batch has: shuffled in rounds for training, in order for validation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch.utils.data import DataLoader, Dataset, Sampler

from graph_metanetworks.errors import TaskError


def require_equal_shares(batch_size: int, processes: int) -> None:
    """Refuse a batch that processes cannot share equally."""
    if batch_size % processes:
        raise TaskError(
            f"a batch of {batch_size} networks cannot be shared equally by {processes} processes: choose a "
            f"--batch-size that is a multiple of {processes}."
        )


@dataclass(eq=False)
class Rounds(Sampler[np.ndarray]):
    """The batches of one round: an endless stream of shuffled networks, cut into rounds.

    Round `k` depends on the seed and `k` only, so a resumed run sees the batches it would have seen.
    Processes that train together get equal parts of each batch.
    """

    positions: np.ndarray
    batch_size: int
    steps: int  # batches per round
    seed: int
    rank: int = 0
    world: int = 1
    round: int = 0

    def __post_init__(self) -> None:
        require_equal_shares(self.batch_size, self.world)

    def set_epoch(self, epoch: int) -> None:
        """Start round `epoch`; Lightning calls rounds epochs."""
        self.round = epoch

    def __len__(self) -> int:
        return self.steps

    def __iter__(self) -> Iterator[np.ndarray]:
        for step in range(self.round * self.steps, (self.round + 1) * self.steps):
            yield self.batch(step)[self.rank :: self.world]

    def batch(self, step: int) -> np.ndarray:
        """Return the networks of a step, for all processes. A batch may span two passes over the data."""
        numbers = np.arange(step * self.batch_size, (step + 1) * self.batch_size)
        passes, places = np.divmod(numbers, len(self.positions))
        orders = {number: self._order(number) for number in np.unique(passes).tolist()}
        return np.array([orders[number][place] for number, place in zip(passes, places, strict=True)])

    def _order(self, number: int) -> np.ndarray:
        return np.random.default_rng((self.seed, number)).permutation(self.positions)


@dataclass(frozen=True, eq=False)
class InOrder(Sampler[np.ndarray]):
    """Each network once, in batches. Processes that evaluate together get different networks."""

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


def loader(data: Dataset[Any], batches: Sampler[np.ndarray]) -> DataLoader[Any]:
    """Load batches as a sampler says, in this process: weights are memory-mapped, so reading is quick."""
    return DataLoader(data, batch_size=None, sampler=batches, collate_fn=_identity)


def _identity(batch: Any) -> Any:
    return batch
