"""Gradient boosting on statistics of the weights."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from graph_metanetworks.extras import optional_imports
from graph_metanetworks.graph.batch import Batch
from graph_metanetworks.nn.baselines.statistics import WeightStatistics
from graph_metanetworks.nn.fitted import resize_buffers

if TYPE_CHECKING:
    from sklearn.ensemble import HistGradientBoostingRegressor

TABLES = ("feature", "threshold", "left", "right", "value", "roots", "base")
MARGIN = 1e-4  # distance of predictions from 0 and 1, where logits are infinite


class Trees(nn.Module):
    """Regression trees as tensors, which are saved like weights: nothing is unpickled.

    The nodes of all trees are in one table. Both children of a leaf are the leaf itself.
    """

    def __init__(self) -> None:
        super().__init__()
        self.feature = nn.Buffer(torch.zeros(1, dtype=torch.int64))
        self.threshold = nn.Buffer(torch.zeros(1, dtype=torch.float64))
        self.left = nn.Buffer(torch.zeros(1, dtype=torch.int64))
        self.right = nn.Buffer(torch.zeros(1, dtype=torch.int64))
        self.value = nn.Buffer(torch.zeros(1, dtype=torch.float64))
        self.roots = nn.Buffer(torch.zeros(0, dtype=torch.int64))  # the first node of each tree
        self.base = nn.Buffer(torch.zeros(1, dtype=torch.float64))
        resize_buffers(self, *TABLES)

    def copy_from(self, regressor: HistGradientBoostingRegressor) -> None:
        """Copy the trees of a fitted scikit-learn regressor."""
        tables = [stage[0].nodes for stage in regressor._predictors]  # pyright: ignore
        starts = np.cumsum([0, *(len(nodes) for nodes in tables)])
        nodes, offsets = np.concatenate(tables), np.repeat(starts[:-1], [len(t) for t in tables])
        rows, leaf = np.arange(len(nodes)), nodes["is_leaf"].astype(bool)
        columns = {
            "feature": np.where(leaf, 0, nodes["feature_idx"]),
            "threshold": nodes["num_threshold"],
            "left": np.where(leaf, rows, nodes["left"] + offsets),
            "right": np.where(leaf, rows, nodes["right"] + offsets),
            "value": np.where(leaf, nodes["value"], 0.0),
            "roots": starts[:-1],
            "base": np.ravel(regressor._baseline_prediction),  # pyright: ignore
        }
        for name in TABLES:
            setattr(self, name, nn.Buffer(torch.as_tensor(columns[name]).to(getattr(self, name).dtype)))

    def forward(self, features: Tensor) -> Tensor:  # [B, columns] -> [B]
        features = features.double()
        node = self.roots.expand(len(features), -1)
        while True:
            chosen = features.gather(1, self.feature[node])
            child = torch.where(chosen <= self.threshold[node], self.left[node], self.right[node])
            if torch.equal(child, node):
                return self.value[node].sum(1) + self.base
            node = child


class BoostedStatNN(nn.Module):
    """The statistics of `StatNN` with scikit-learn's gradient boosting instead of an MLP. `[B, 1]`

    It is not trained by gradient descent: call `fit`, then `learn`. With `logit`, targets lie between 0 and
    1, and outputs are their logits.
    """

    def __init__(
        self, *, iterations: int = 300, learning_rate: float = 0.05, leaves: int = 15, logit: bool = True
    ) -> None:
        super().__init__()
        self.logit = logit
        self.options = {"max_iter": iterations, "learning_rate": learning_rate, "max_leaf_nodes": leaves}
        self.statistics = WeightStatistics("both")
        self.trees = Trees()

    def fit(self, batches: Iterable[Batch]) -> None:
        """Take the columns and their scales from a training zoo."""
        self.statistics.fit(batches)

    def learn(self, examples: Iterable[tuple[Batch, Tensor]], *, seed: int = 0) -> None:
        """Grow trees on batches of networks and their targets `[B]`."""
        self.double()  # as for prediction: a number near a threshold is then on the same side of it
        parts = [(self.statistics(batch.to(torch.float64)), targets) for batch, targets in examples]
        features, targets = (torch.cat(part) for part in zip(*parts, strict=True))
        self.grow(features, targets, seed=seed)

    def grow(self, features: Tensor, targets: Tensor, *, seed: int = 0) -> None:
        """Grow trees on features, as `statistics` gives them, and targets."""
        with optional_imports():
            from sklearn.ensemble import HistGradientBoostingRegressor

        leaf = max(2, min(20, len(features) // 20))
        regressor = HistGradientBoostingRegressor(
            **self.options,
            min_samples_leaf=leaf,
            early_stopping=False,  # pyright: ignore[reportArgumentType]
            random_state=seed,
        )
        self.trees.copy_from(regressor.fit(features.numpy(), targets.numpy()))

    def forward(self, batch: Batch) -> Tensor:  # [B, 1]
        found = self.trees(self.statistics(batch))
        outputs = found.clamp(MARGIN, 1 - MARGIN).logit() if self.logit else found
        return outputs.to(self.statistics.mean)[:, None]
