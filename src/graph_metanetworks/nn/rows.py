"""Encode neurons that read few inputs, such as coordinates, by all of their incoming weights at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from graph_metanetworks.graph.batch import Batch
from graph_metanetworks.graph.parameter_graph import ParameterGraph
from graph_metanetworks.graph.parts import EdgeBlock
from graph_metanetworks.nn.mlp import Mlp, signed_log
from graph_metanetworks.nn.unary import harmonics, neuron_biases
from graph_metanetworks.nn.vocabulary import Vocabulary

MOST = 4  # inputs of a neuron
WAVES = 32
INNER = 64


class RowEncoder(nn.Module):
    r"""Encode the row of weights and the bias of neurons with at most four inputs, as a term of their state.

    A product with weights is linear in each of them. But what a neuron on coordinates does depends on its
    row as a whole: :math:`\sin(\omega (w \cdot x + b))` is a plane wave with a direction, a length and a
    phase. So an MLP sees the row, and the wave at learned points. Neurons whose bias no sine reads have a
    frequency by the size of their weights: random Fourier features of the row.

    Only inputs that no symmetry moves count, those with an index, so the encoder is equivariant.
    """

    def __init__(self, hidden: int, vocabulary: Vocabulary, *, channels: int = 1) -> None:
        super().__init__()
        self.vocabulary, self.channels = vocabulary, channels
        self.points = nn.Parameter(2 * torch.rand(WAVES, MOST) - 1)
        width = 2 * MOST * channels + 2 + 4
        self.mlp = Mlp(width + 2 * WAVES, INNER, hidden)
        self.size = nn.Buffer(torch.ones(channels))  # root mean square of weights

    def forward(self, batch: Batch, nodes: Tensor) -> Tensor:  # [N, hidden] -> [N, hidden]
        """Add the encoding to the states of these neurons."""
        rows, node = self._rows_of(batch)
        bias, frequency = (own[node] for own in neuron_biases(batch, self.vocabulary))
        rows, bias, frequency = rows.to(self.size), bias.to(self.size), frequency.to(self.size)
        known = frequency > 0
        frequency = torch.where(known, frequency, 1 / self.size[0])
        angles = frequency[:, None] * (rows[..., 0] @ self.points.T + bias[:, None])
        scaled = rows / self.size
        length = scaled[..., 0].square().sum(1, keepdim=True).add(1e-4).sqrt()
        features = [
            scaled.flatten(1),
            signed_log(10 * scaled).flatten(1),
            length,
            length.log(),
            harmonics(frequency * bias),
            angles.sin(),
            angles.cos(),
        ]
        return nodes.index_add(0, node, self.mlp(torch.cat(features, dim=1)))

    @torch.no_grad()
    def fit(self, batches: Iterable[Batch]) -> None:
        """Take the size of weights from a training zoo."""
        total, count = torch.zeros(self.channels, dtype=torch.float64), 0
        for batch in batches:
            rows, _ = self._rows_of(batch)
            total += rows.double().square().sum((0, 1)).cpu()
            count += int(rows[..., 0].ne(0).sum())
        if count:
            self.size.copy_((total / count).sqrt().clamp(min=1e-6))

    def _rows_of(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return rows of weights, `[n, MOST, C]`, with zeros for inputs that are not there; and the neurons."""
        rows, nodes = [torch.zeros(0, MOST, batch.channels, dtype=batch.dtype, device=batch.device)], []
        for stack in batch.stacks:
            starts = torch.tensor([batch.node_starts[member] for member in stack.members])[:, None]
            for block in row_blocks(stack.graph):
                values = stack.block_values(block.number)
                values = values.reshape(len(values), -1, batch.channels)[:, block.order.to(values.device)]
                values = values.unflatten(1, (len(block.node), -1)).flatten(0, 1)
                rows.append(nn.functional.pad(values, (0, 0, 0, MOST - values.shape[1])))
                nodes.append((starts + block.node).flatten())
        node = torch.cat(nodes) if nodes else torch.zeros(0, dtype=torch.int64)
        return torch.cat(rows), node.to(batch.device)


class RowBlock(NamedTuple):
    """A block whose targets read few inputs each."""

    number: int
    node: Tensor  # [targets]
    order: Tensor  # [targets * inputs] edges, target by target, in the order of inputs


_BLOCKS: WeakKeyDictionary[ParameterGraph, tuple[RowBlock, ...]] = WeakKeyDictionary()


def row_blocks(graph: ParameterGraph) -> tuple[RowBlock, ...]:
    """Return the blocks of linear layers on at most four inputs that no symmetry moves, cached."""
    if graph not in _BLOCKS:
        found = ((number, _rows(graph, block)) for number, block in enumerate(graph.blocks))
        _BLOCKS[graph] = tuple(RowBlock(number, *own) for number, own in found if own is not None)
    return _BLOCKS[graph]


def _rows(graph: ParameterGraph, block: EdgeBlock) -> tuple[Tensor, Tensor] | None:
    if block.kind != "linear weight" or block.parameter is None or block.positions:
        return None
    index = graph.node_index[block.source]
    if block.num_edges == 0 or block.source.numel() > block.num_edges or bool((index < 0).any()):
        return None
    target = block.target.expand(block.shape).reshape(-1)
    nodes, counts = target.unique(return_counts=True)
    if int(counts.max()) > MOST or bool((counts != counts[0]).any()):
        return None
    order = (target * (int(index.max()) + 1) + index.expand(block.shape).reshape(-1)).argsort(stable=True)
    return nodes, order
