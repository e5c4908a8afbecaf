"""A readout for small zoos: the means of each tensor, standardized over the training zoo."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from graph_metanetworks.graph.batch import Batch
from graph_metanetworks.nn.engine.panel import Panel
from graph_metanetworks.nn.fitted import Fitted, refilled
from graph_metanetworks.nn.mlp import Mlp
from graph_metanetworks.nn.norm import normed
from graph_metanetworks.nn.readouts import PooledEdges
from graph_metanetworks.nn.vocabulary import Vocabulary, tensor_rows

if TYPE_CHECKING:
    from graph_metanetworks.nn.metanetwork import GraphMetanetwork


class TensorMeans(PooledEdges):
    """The means of states and of their squares over each block of edges. [blocks, 2 hidden]

    A block is a tensor, or a part of one with its own role, such as the queries of a packed attention.
    """

    def num_segments(self, batch: Batch) -> int:
        return sum(len(graph.blocks) for graph in batch.graphs)

    def segments(self, panel: Panel, batch: Batch) -> Tensor:
        starts = list(accumulate((len(graph.blocks) for graph in batch.graphs), initial=0))
        numbers = [starts[use.network] + use.block for use in panel.uses]
        return torch.tensor(numbers, device=panel.use.device)[panel.use]

    def cell(self, edges: Tensor, weights: list[Tensor]) -> Tensor:
        states = normed(edges)
        return torch.cat([states, states * states], dim=-1)

    def finish(self, pooled: Tensor, batch: Batch) -> Tensor:
        sizes = [float(block.num_edges) for graph in batch.graphs for block in graph.blocks]
        return pooled / torch.tensor(sizes).to(pooled)[:, None]


class MeanByTensor(Fitted, TensorMeans):
    """The means of each tensor, an MLP that is told which tensor it is, then the sum over tensors.

    All tensors count equally, however many edges they have. After `fit`, means are standardized over the
    training zoo, because their differences between networks are small compared to what all share. A tensor is
    identified by its name, or by its kind of edges if the name is unknown.

    Args:
        inner: width of the terms that are summed.
        tensors: names of known parameters; `fit` replaces them.
    """

    def __init__(
        self,
        hidden: int,
        out: int,
        *,
        inner: int = 128,
        vocabulary: Vocabulary | None = None,
        tensors: Iterable[str] = (),
    ) -> None:
        super().__init__()
        self.hidden, self.vocabulary = hidden, vocabulary or Vocabulary()
        self.mix = Mlp(3 * hidden, inner, inner)
        self.head = Mlp(inner, inner, out)
        self.set_fitted_names(tensors)

    def make_tables(self) -> None:
        """Make a row for each kind, then one for each fitted tensor; means count as they are."""
        rows, like = len(self.vocabulary.edge_kinds) + len(self.fitted_names), self.mix.first.weight
        self.mean = nn.Buffer(like.new_zeros(rows, 2 * self.hidden))
        self.deviation = nn.Buffer(like.new_ones(rows, 2 * self.hidden))
        self.gain = refilled(getattr(self, "gain", None), like.new_ones(rows, 2 * self.hidden))
        self.name = refilled(getattr(self, "name", None), torch.randn(rows, self.hidden).to(like))

    @torch.no_grad()
    def fit(self, batches: Iterable[Batch], network: GraphMetanetwork) -> None:
        """Take the mean and deviation of each tensor's means from a training zoo."""
        self.set_fitted_names(network.tensor_names)
        readout = TensorMeans()
        found = [
            (self.rows(batch), self.rows(batch, by_name=False), network.read(batch, readout))
            for batch in batches
        ]
        names, kinds, all_means = (torch.cat(part) for part in zip(*found, strict=True))
        for rows in (names, kinds):
            for row in rows.unique().tolist():
                means = all_means[rows == row]
                self.mean[row] = means.mean(0)
                self.deviation[row] = means.std(0, correction=0).clamp(min=1e-3)

    def rows(self, batch: Batch, *, by_name: bool = True) -> Tensor:
        """Return the row of each block. [blocks]"""
        found, tensors = [], self.fitted_names if by_name else ()
        for graph, name in zip(batch.graphs, batch.names, strict=True):
            kinds = self.vocabulary.rows("edge_kinds", [block.kind for block in graph.blocks], name)
            found += tensor_rows(tensors, graph.blocks, kinds, len(self.vocabulary.edge_kinds))
        return torch.tensor(found, device=self.mean.device)

    def finish(self, pooled: Tensor, batch: Batch) -> Tensor:
        rows = self.rows(batch)
        standardized = (super().finish(pooled, batch) - self.mean[rows]) / self.deviation[rows]
        standardized = standardized.sign() * standardized.abs().log1p() * self.gain[rows]
        mixed = self.mix(torch.cat([standardized, self.name[rows]], dim=1)).relu()
        parts = mixed.split([len(graph.blocks) for graph in batch.graphs])
        return self.head(torch.stack([part.sum(0) / len(part) ** 0.5 for part in parts]))
