"""A training job: model, objective, data, split, options and run folder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from torch import nn
from torch.utils.data import Dataset

from graph_metanetworks.graph.batch import Batch
from graph_metanetworks.training.objective import Objective
from graph_metanetworks.training.options import Machine, TrainingOptions


@dataclass(frozen=True, eq=False)
class Split:
    """Positions of networks in a zoo, ascending. No network is in two parts."""

    train: np.ndarray
    validation: np.ndarray
    test: np.ndarray

    def parts(self) -> dict[str, np.ndarray]:
        return {"train": self.train, "validation": self.validation, "test": self.test}


class Examples(Protocol):
    """A data set of networks: `data[positions]` is a batch and its targets."""

    def __getitem__(self, positions: np.ndarray, /) -> tuple[Batch, Any]: ...


@dataclass(frozen=True, eq=False)
class TrainingJob:
    """Everything that a training strategy needs."""

    name: str  # shown in front of the progress bar
    model: nn.Module
    objective: Objective
    data: Dataset[tuple[Batch, Any]]
    split: Split
    options: TrainingOptions
    folder: Path
    machine: Machine

    def examples(self) -> Iterator[tuple[Batch, Any]]:
        """Iterate once over the training networks in order."""
        return in_batches(self.data, self.split.train, self.options.batch_size)


def in_batches(data: Examples, positions: np.ndarray, size: int) -> Iterator[tuple[Batch, Any]]:
    """Iterate over the networks at these positions, in order."""
    return (data[positions[start : start + size]] for start in range(0, len(positions), size))


@dataclass(frozen=True, eq=False)
class Networks:
    """The networks at these positions in batches, without targets. It can be iterated over repeatedly."""

    data: Examples
    positions: np.ndarray
    size: int

    def __iter__(self) -> Iterator[Batch]:
        return (batch for batch, _ in in_batches(self.data, self.positions, self.size))
