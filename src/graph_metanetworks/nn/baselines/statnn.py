"""StatNN: an MLP on statistics of the weights."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor, nn

from graph_metanetworks.batch import Batch
from graph_metanetworks.nn.baselines.statistics import By, WeightStatistics
from graph_metanetworks.nn.mlp import Mlp


class StatNN(nn.Module):
    """Mean, variance and five quantiles of each tensor, then an MLP (Unterthiner et al., 2020).

    With `by="tensor"`, as published, it takes networks whose tensors have the names of those in the training
    zoo, of any sizes; what a network lacks is marked as absent. With `by="kind"` weights are pooled by kind
    of edge, and with `by="both"` there are the numbers of both: it takes any network made of the same kinds
    of edges. Call `fit` first: it makes the first layer.

    >>> import torch, graph_metanetworks as gmn
    >>> model = torch.nn.Linear(3, 2)
    >>> batch = gmn.collate([(gmn.trace(model, torch.zeros(1, 3)), model.state_dict())] * 4)
    >>> statnn = StatNN(hidden=16)
    >>> statnn.fit([batch])
    >>> statnn(batch).shape
    torch.Size([4, 1])
    """

    def __init__(self, hidden: int = 1000, out: int = 1, *, by: By = "tensor") -> None:
        super().__init__()
        self.hidden = hidden
        self.statistics = WeightStatistics(by)
        self.first: nn.Module = nn.Identity()  # made when the columns are known
        self.head = Mlp(hidden, hidden, out)

    @property
    def scales(self) -> tuple[str, ...]:
        return self.statistics.columns

    def make_tables(self, columns: Iterable[str]) -> None:
        self.statistics.make_tables(columns)
        self.first = nn.Linear(self.statistics.width, self.hidden)

    def fit(self, batches: Iterable[Batch]) -> None:
        """Take columns and their scales from a training zoo; call it before the optimiser is made."""
        self.statistics.fit(batches)
        self.first = nn.Linear(self.statistics.width, self.hidden)

    def forward(self, batch: Batch) -> Tensor:  # [B, out]
        return self.head(self.first(self.statistics(batch)).relu())
