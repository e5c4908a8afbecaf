"""StatNN: an MLP on statistics of the weights."""

from __future__ import annotations

from collections.abc import Iterable
from math import sqrt
from typing import ClassVar

from torch import Tensor, nn

from graph_metanetworks.graph.batch import Batch
from graph_metanetworks.nn.baselines.statistics import By, WeightStatistics
from graph_metanetworks.nn.embedding import input_of
from graph_metanetworks.nn.fitted import NAMES, refill, resize_by_names
from graph_metanetworks.nn.mlp import Mlp


class StatNN(nn.Module):
    """Mean, variance and five quantiles of each tensor, then an MLP (Unterthiner et al., 2020).

    With `by="tensor"`, as published, it takes networks whose tensors have names from the training zoo, of any
    size; missing tensors are marked as absent. With `by="kind"` weights are pooled by kind of edge, and with
    `by="both"` both are used: it takes any network with the same kinds of edges. Call `fit` first: it makes
    the first layer, whose number of inputs depends on the zoo.

    With `hidden=None` the width is chosen then, so that there are about `budget` parameters.

    >>> import torch, graph_metanetworks as gmn
    >>> model = torch.nn.Linear(3, 2)
    >>> batch = gmn.collate([(gmn.trace(model, torch.zeros(1, 3)), model.state_dict())] * 4)
    >>> statnn = StatNN(hidden=16)
    >>> statnn.fit([batch])
    >>> statnn(batch).shape
    torch.Size([4, 1])
    >>> statnn = StatNN(hidden=None, budget=5000)
    >>> statnn.fit([batch])
    >>> sum(parameter.numel() for parameter in statnn.parameters())
    5023
    """

    context: ClassVar[int] = 0  # numbers that the head sees besides

    def __init__(
        self, hidden: int | None = 1000, out: int = 1, *, by: By = "tensor", budget: int | None = None
    ) -> None:
        super().__init__()
        if hidden is None and budget is None:
            raise ValueError("give hidden, the width of the layers, or budget, the number of parameters.")
        self.hidden, self.out, self.budget = hidden, out, budget
        self.statistics = WeightStatistics(by)
        # `fit` gives the first layer its size, when the columns are known; the head, too, without `hidden`
        self.first = nn.Linear(1, hidden or 1)
        self.head = self._head(hidden or 1)
        resize_by_names(self, f"statistics.{NAMES}")

    @property
    def fitted_names(self) -> tuple[str, ...]:
        return self.statistics.fitted_names

    def set_fitted_names(self, names: Iterable[str]) -> None:
        self.statistics.set_fitted_names(names)
        self._make_layers()

    def fit(self, batches: Iterable[Batch]) -> None:
        """Take the columns and their scales from a training zoo, before the first step of an optimizer."""
        self.statistics.fit(batches)
        self._make_layers()

    def _make_layers(self) -> None:
        width, hidden = self.statistics.width, self.hidden
        if hidden is None:
            hidden = width_for_budget(self._budget(), width + self.context, self.out)
            refill(self.head, self._head(hidden).to(self.statistics.mean))
        refill(self.first, nn.Linear(width, hidden).to(self.statistics.mean))

    def _head(self, hidden: int) -> Mlp:
        return Mlp(hidden + self.context, hidden, self.out)

    def _budget(self) -> int:
        return self.budget or 0

    def forward(self, batch: Batch) -> Tensor:  # [B, out]
        return self.head(self.first(self.statistics(batch)).relu())

    def embed(self, batch: Batch) -> Tensor:
        """Return the representation of each network before the last layer. [B, hidden]"""
        return input_of(self.head.second, self, batch)


def width_for_budget(budget: int, inputs: int, out: int) -> int:
    """Return the width `h` with which three layers have about `budget` parameters.

    They have `h (inputs + 1) + h (h + 1) + out (h + 1)`.

    >>> width_for_budget(50_000, 500, 1)
    85
    """
    linear = inputs + 2 + out
    return max(1, round((sqrt(linear**2 + 4 * (budget - out)) - linear) / 2))
