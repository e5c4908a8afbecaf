"""Unary parameters as features of their neuron: biases, scales and shifts of norms, running statistics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor, nn

from graph_metanetworks.graph.batch import Batch
from graph_metanetworks.nn.engine.matrices import block_layouts
from graph_metanetworks.nn.mlp import signed_log
from graph_metanetworks.nn.vocabulary import Vocabulary

FEATURES = 3
SMALL = 0.1  # values far below it count by their sign
SMALLEST = 1e-2  # sizes below it look alike


class UnaryEncoder(nn.Module):
    """Encode the parameters that belong to one neuron, by kind, as a term of its first state.

    As one message among hundreds a bias would vanish in a mean. Features are standardized over the training
    zoo by `fit`, per kind of edge and never per neuron, so the encoder is equivariant.
    """

    def __init__(self, hidden: int, vocabulary: Vocabulary, *, channels: int = 1) -> None:
        super().__init__()
        self.vocabulary, self.channels = vocabulary, channels
        kinds, width = len(vocabulary.edge_kinds), FEATURES * channels
        self.weight = nn.Parameter(torch.randn(kinds, width + 1, hidden) / (width + 1) ** 0.5)
        self.mean = nn.Buffer(torch.zeros(kinds, width))
        self.deviation = nn.Buffer(torch.ones(kinds, width))

    def forward(self, batch: Batch) -> Tensor:  # [N, hidden]
        found = list(self._parameters_of(batch))
        states = self.weight.new_zeros(batch.num_nodes, self.weight.shape[-1])
        if not found:
            return states
        present = sorted({kind for kind, _, _ in found})
        table = states.new_zeros(len(present) * batch.num_nodes, self.weight.shape[1])
        places = [target + present.index(kind) * batch.num_nodes for kind, target, _ in found]
        rows = [self._features(kind, values) for kind, _, values in found]
        table = table.index_add(0, torch.cat(places).to(table.device), torch.cat(rows))
        return torch.einsum(
            "knf,kfh->nh", table.view(len(present), batch.num_nodes, -1), self.weight[present]
        )

    @torch.no_grad()
    def fit(self, batches: Iterable[Batch]) -> None:
        """Take the mean and the deviation of the features of each kind from a training zoo."""
        count = torch.zeros(len(self.mean), 1, dtype=torch.float64)
        total, squares = (torch.zeros(*self.mean.shape, dtype=torch.float64) for _ in range(2))
        for batch in batches:
            for kind, _, values in self._parameters_of(batch):
                raw = raw_features(values.double()).cpu()
                count[kind] += len(raw)
                total[kind] += raw.sum(0)
                squares[kind] += raw.square().sum(0)
        mean = total / count.clamp(min=1)
        deviation = (squares / count.clamp(min=1) - mean.square()).clamp(min=0).sqrt().clamp(min=1e-3)
        self.mean.copy_(mean)
        self.deviation.copy_(torch.where(count > 0, deviation, 1))

    def _features(self, kind: int, values: Tensor) -> Tensor:  # [n, C] -> [n, 1 + 3 C]
        standardized = (raw_features(values.to(self.mean)) - self.mean[kind]) / self.deviation[kind]
        return torch.cat([standardized.new_ones(len(values), 1), signed_log(standardized)], dim=1)

    def _parameters_of(self, batch: Batch) -> Iterator[tuple[int, Tensor, Tensor]]:
        """Yield kind, neurons `[n]` and values `[n, C]` of every unary block, for all networks of a stack."""
        for stack in batch.stacks:
            starts = torch.tensor([batch.node_starts[member] for member in stack.members])
            for number, layout in block_layouts(stack.graph).unary.items():
                name = batch.names[stack.members[0]]
                (kind,) = self.vocabulary.rows("edge_kinds", [layout.block.kind], name)
                values = stack.block_values(number)  # [networks, *shape, C]
                target = layout.block.target.expand(layout.block.shape).reshape(-1)
                yield kind, (starts[:, None] + target).reshape(-1), values.reshape(-1, values.shape[-1])


def raw_features(values: Tensor) -> Tensor:
    """Return each value, a squashed copy and the logarithm of its size. [n, C] -> [n, 3 C]"""
    size = values.abs()
    return torch.cat([values, values / (SMALL + size), (size + SMALLEST).log()], dim=1)
