"""Unary parameters as features of their neuron: biases, scales and shifts of norms, running statistics."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from graph_metanetworks.graph.batch import Batch, Stack
from graph_metanetworks.graph.parameter_graph import ParameterGraph
from graph_metanetworks.graph.parts import EdgeBlock
from graph_metanetworks.nn.engine.matrices import block_layouts
from graph_metanetworks.nn.mlp import signed_log
from graph_metanetworks.nn.vocabulary import Vocabulary

FEATURES = 3
OCTAVES = 2  # of phases
SMALL = 0.1  # values far below it count by their sign
SMALLEST = 1e-2  # sizes below it look alike


class UnaryEncoder(nn.Module):
    """Encode the parameters that belong to one neuron, by kind, as a term of its first state.

    As one message among hundreds a bias would vanish in a mean. Features are standardized over the training
    zoo by `fit`, per kind of edge and never per neuron, so the encoder is equivariant. A bias that only a
    sine reads is a phase, as `graph.scaling` finds them: it counts by its sine and cosine, too.
    """

    def __init__(self, hidden: int, vocabulary: Vocabulary, *, channels: int = 1) -> None:
        super().__init__()
        self.vocabulary, self.channels = vocabulary, channels
        kinds, width = len(vocabulary.edge_kinds), FEATURES * channels
        self.weight = nn.Parameter(torch.randn(kinds, width + 1, hidden) / (width + 1) ** 0.5)
        self.phase = nn.Linear(2 * OCTAVES, hidden, bias=False)
        self.mean = nn.Buffer(torch.zeros(kinds, width))
        self.deviation = nn.Buffer(torch.ones(kinds, width))

    def forward(self, batch: Batch) -> Tensor:  # [N, hidden]
        kind, node, values, frequency = self._parameters_of(batch)
        raw = (raw_features(values.to(self.mean)) - self.mean[kind]) / self.deviation[kind]
        rows = torch.cat([raw.new_ones(len(raw), 1), signed_log(raw)], dim=1)
        present = sorted({k for s in batch.stacks for k in unary_blocks(s.graph, self.vocabulary).present})
        row = kind.new_zeros(len(self.weight))
        row[present] = torch.arange(len(present), device=row.device)
        table = rows.new_zeros(batch.num_nodes * len(present), rows.shape[1])
        table = table.index_add(0, node * len(present) + row[kind], rows)
        states = table.view(batch.num_nodes, -1) @ self.weight[present].flatten(0, 1)
        (phases,) = frequency.nonzero(as_tuple=True)
        angles = values[phases, 0].to(rows) * frequency[phases].to(rows)
        return states.index_add(0, node[phases], self.phase(harmonics(angles)))

    @torch.no_grad()
    def fit(self, batches: Iterable[Batch]) -> None:
        """Take the mean and the deviation of the features of each kind from a training zoo."""
        count = torch.zeros(len(self.mean), 1, dtype=torch.float64)
        total, squares = (torch.zeros(*self.mean.shape, dtype=torch.float64) for _ in range(2))
        for batch in batches:
            kind, _, values, _ = (part.cpu() for part in self._parameters_of(batch))
            raw = raw_features(values.double())
            count.index_add_(0, kind, raw.new_ones(len(raw), 1))
            total.index_add_(0, kind, raw)
            squares.index_add_(0, kind, raw.square())
        mean = total / count.clamp(min=1)
        deviation = (squares / count.clamp(min=1) - mean.square()).clamp(min=0).sqrt().clamp(min=1e-3)
        self.mean.copy_(mean)
        self.deviation.copy_(torch.where(count > 0, deviation, 1))

    def _parameters_of(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return kind `[n]`, node `[n]`, values `[n, C]` and frequency `[n]` of all unary parameters."""
        kinds, nodes, frequencies = [], [], []
        values = [torch.zeros(0, batch.channels, dtype=batch.dtype, device=batch.device)]
        for stack in batch.stacks:
            blocks, count = unary_blocks(stack.graph, self.vocabulary), len(stack.members)
            kinds.append(blocks.kind.repeat(count))
            nodes.append((_starts(batch, stack) + blocks.node).reshape(-1))
            frequencies.append(blocks.frequency.repeat(count))
            values += [blocks.values(stack).flatten(0, 1)] if blocks.numbers else []
        kind, node, frequency = (torch.cat(own).to(batch.device) for own in (kinds, nodes, frequencies))
        return kind, node, torch.cat(values), frequency


class UnaryBlocks(NamedTuple):
    """The unary blocks of a graph, one after the other."""

    numbers: tuple[int, ...]
    kind: Tensor  # [n] row of a vocabulary of each parameter
    node: Tensor  # [n] the neuron it belongs to
    frequency: Tensor  # [n] of the sine that reads it; 0 without one
    present: frozenset[int]  # the kinds

    def values(self, stack: Stack) -> Tensor:
        """Return the parameters of every network of a stack. [networks, n, C]"""
        found = [stack.block_values(number) for number in self.numbers]
        return torch.cat([own.reshape(len(own), -1, own.shape[-1]) for own in found], dim=1)


_BLOCKS: WeakKeyDictionary[ParameterGraph, tuple[Vocabulary, UnaryBlocks]] = WeakKeyDictionary()


def unary_blocks(graph: ParameterGraph, vocabulary: Vocabulary) -> UnaryBlocks:
    """Return the unary blocks of a graph, cached."""
    if graph not in _BLOCKS or _BLOCKS[graph][0] is not vocabulary:
        found = {number: layout.block for number, layout in block_layouts(graph).unary.items()}
        rows = vocabulary.rows("edge_kinds", [block.kind for block in found.values()], graph.name)
        sizes = torch.tensor([block.num_edges for block in found.values()], dtype=torch.int64)
        nodes = [block.target.expand(block.shape).reshape(-1) for block in found.values()]
        kind = torch.tensor(rows, dtype=torch.int64).repeat_interleave(sizes)
        node = torch.cat([torch.zeros(0, dtype=torch.int64), *nodes])
        frequency = torch.cat([torch.zeros(0), *(_frequency(graph, block) for block in found.values())])
        _BLOCKS[graph] = vocabulary, UnaryBlocks(tuple(found), kind, node, frequency, frozenset(rows))
    return _BLOCKS[graph][1]


class SineUnits(NamedTuple):
    """The neurons of a batch that only a sine reads: what they sum is an angle."""

    node: Tensor  # [n] nodes of the batch, in order
    angle: Tensor  # [n] of their biases, in radians


def sine_units(batch: Batch, vocabulary: Vocabulary) -> SineUnits:
    """Find the neurons with a bias that only a sine reads, as `graph.frequencies` has them."""
    precision = torch.promote_types(batch.dtype, torch.float32)  # angles may be large
    angle, found = torch.zeros(batch.num_nodes, dtype=precision, device=batch.device), []
    for stack in batch.stacks:
        blocks = unary_blocks(stack.graph, vocabulary)
        (inside,) = blocks.frequency.nonzero(as_tuple=True)
        if len(inside):
            node = (_starts(batch, stack) + blocks.node[inside]).reshape(-1).to(batch.device)
            own = blocks.values(stack)[:, inside, 0].to(angle) * blocks.frequency[inside].to(angle)
            angle, found = angle.index_add(0, node, own.reshape(-1)), [*found, node]
    node = torch.cat(found).unique() if found else torch.zeros(0, dtype=torch.int64, device=batch.device)
    return SineUnits(node, angle[node])


def _starts(batch: Batch, stack: Stack) -> Tensor:  # [networks, 1]
    return torch.tensor([batch.node_starts[member] for member in stack.members])[:, None]


def _frequency(graph: ParameterGraph, block: EdgeBlock) -> Tensor:  # [edges]
    known = graph.frequencies.get(block.parameter or "")
    if known is None or block.elements is None:
        return torch.zeros(block.num_edges)
    return block.elements.read(known).reshape(-1)


def raw_features(values: Tensor) -> Tensor:
    """Return each value, a squashed copy and the logarithm of its size. [n, C] -> [n, 3 C]"""
    size = values.abs()
    return torch.cat([values, values / (SMALL + size), (size + SMALLEST).log()], dim=1)


def harmonics(angles: Tensor) -> Tensor:
    """Return sine and cosine of each angle, of twice the angle, and so on. [n] -> [n, 2 OCTAVES]"""
    multiples = angles[:, None] * 2 ** torch.arange(OCTAVES, device=angles.device)
    return torch.cat([multiples.sin(), multiples.cos()], dim=1)
