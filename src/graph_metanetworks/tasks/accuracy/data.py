"""Networks of a zoo with the accuracies to predict."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import torch

from graph_metanetworks.errors import TaskError
from graph_metanetworks.tasks.data import TaskData, read_numbers
from graph_metanetworks.tasks.traced_zoo import TracedZoo

LABEL = "test_accuracy"


class LabelledZoo(TaskData):
    """A traced zoo with accuracies: `data[[0, 5, 7]]` is a batch of networks and their accuracies `[3]`."""

    def __init__(self, networks: TracedZoo, label: str = LABEL) -> None:
        self.label = label
        self.labels = read_labels(networks.zoo.table, label, where=str(networks.zoo.folder))
        super().__init__(networks, torch.from_numpy(self.labels))


def read_labels(table: pa.Table, label: str, *, where: str) -> np.ndarray:  # [N] float32
    """Read a column of accuracies."""
    labels = read_numbers(table, label, where=where)
    if labels.min() < 0 or labels.max() > 1:
        raise TaskError(
            f"'{label}' goes from {labels.min():.4g} to {labels.max():.4g}, and accuracies lie between 0 and "
            "1: name another column with --label, or divide percentages by 100."
        )
    return labels
