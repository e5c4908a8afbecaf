"""Message passing on bundles: parallel edges between two neurons (taps of a kernel, say) share one state.

Letters as in `engine.matrices`: `G` matrices, `T` targets, `S` sources, `K` taps, `C` channels.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from graph_metanetworks.graph.batch import Batch
from graph_metanetworks.graph.parts import MAX_POSITIONS
from graph_metanetworks.nn.encoders import position_features
from graph_metanetworks.nn.engine.matrices import MatrixPanel, arrange_matrices, block_layouts
from graph_metanetworks.nn.engine.products import pieces
from graph_metanetworks.nn.engine.sweep import Executor, Terms, one_worker
from graph_metanetworks.nn.matrix_product import POSITION_FEATURES, sizes_by_kind
from graph_metanetworks.nn.mlp import Mlp, product, signed_log
from graph_metanetworks.nn.vocabulary import Vocabulary

SHARPNESS = 3.0  # weights far above a third of the usual size are shown by their logarithm
SMALL = 0.1  # sizes far below it look alike
FEATURES = 2  # of each weight
LIST_BELOW = 1_000  # bundles: smaller panels run together as one list
PIECE = 1 << 19  # numbers in the states of a piece that is streamed


class Ends(NamedTuple):
    """The nodes that a stack of `[T, S]` bundles joins."""

    source: Tensor  # [G, S] node numbers in the batch
    target: Tensor  # [G, T]

    @property
    def num_bundles(self) -> int:
        return self.target.numel() * self.source.shape[1]

    def listed(self) -> Ends:
        """Return the same bundles as matrices of one row and one column."""
        shape = (*self.target.shape, self.source.shape[1])
        ends = (self.source[:, None, :], self.target[:, :, None])
        return Ends(*(end.expand(shape).reshape(-1, 1) for end in ends))


class BundlePassing(nn.Module):
    r"""One layer of messages along bundles, with one hidden layer for messages and the update of bundles.

    .. math::
        m_{ts} &= \mathrm{ReLU}(A h_s + B h_t + C e_{ts}), \qquad e_{ts} \gets e_{ts} + D m_{ts} \\
        h_i &\gets h_i + \mathrm{MLP}(h_i, \mathrm{mean}_s m_{is}, \mathrm{mean}_t m_{ti})

    What a neuron receives through its incoming bundles and through its outgoing ones is averaged apart.

    Args:
        hidden: width of the states of nodes and bundles.
        inner: width of messages and inside the MLP; `hidden` by default.
        updates_edges: False for the last block, because readouts take results from nodes.
    """

    def __init__(self, hidden: int, inner: int | None = None, *, updates_edges: bool = True) -> None:
        super().__init__()
        inner = inner or hidden
        self.norm = nn.LayerNorm(hidden)
        self.source = nn.Linear(hidden, inner, bias=False)
        self.target = nn.Linear(hidden, inner)
        self.edge = nn.Linear(hidden, inner, bias=False)
        self.edge_update = nn.Linear(inner, hidden, bias=False) if updates_edges else None
        self.update = Mlp(hidden + 2 * inner, inner, hidden)
        for part in (self.source, self.target, self.edge):
            nn.init.normal_(part.weight, std=(2 / (3 * hidden)) ** 0.5)
        nn.init.zeros_(self.target.bias)

    def forward(self, nodes: Tensor, bundles: Bundles) -> Tensor:  # [N, hidden] -> [N, hidden]
        """Update nodes, and the states of bundles in place."""
        normed = self.norm(nodes)
        received = bundles.send(self, Terms(self.source(normed), self.target(normed)))
        return nodes + self.update(torch.cat([normed, *received], dim=1))

    def messages(self, edges: Tensor, source: Tensor, target: Tensor) -> Tensor:
        """Return messages from the terms of both ends. [G, T, S, h], [G, S, i], [G, T, i] -> [G, T, S, i]"""
        ends = source[:, None] + target[:, :, None]
        return ends.add_(product(edges, self.edge.weight)).relu_()

    def updated(self, edges: Tensor, messages: Tensor) -> Tensor:
        assert self.edge_update is not None
        return edges + product(messages, self.edge_update.weight)


class BundleEncoder(nn.Module):
    r"""Encode bundles: contract the weights between two neurons with learned weights for each position.

    Each weight is multiplied by the root of its fan-in in neurons and divided by the root mean square of this
    in its kind, which `fit` takes from a training zoo: networks of any width look alike. It is shown by its
    signed logarithm and by the logarithm of its size.
    """

    def __init__(self, hidden: int, vocabulary: Vocabulary, *, channels: int = 1) -> None:
        super().__init__()
        self.hidden, self.vocabulary, self.channels = hidden, vocabulary, channels
        self.kind = nn.Embedding(len(vocabulary.edge_kinds), hidden)
        width = FEATURES * channels
        self.tap = Mlp(POSITION_FEATURES, hidden, width * hidden)
        nn.init.normal_(self.tap.second.bias, std=width**-0.5)
        self.mix = Mlp(hidden, hidden, hidden)
        self.size = nn.Buffer(torch.ones(len(vocabulary.edge_kinds), channels))  # sqrt(mean(w^2) S)

    @torch.no_grad()
    def fit(self, batches: Iterable[Batch]) -> None:
        """Take the size of the weights of each kind of edge from a training zoo."""
        size = sizes_by_kind(batches, self.vocabulary, self.channels, lambda panel: panel.shape[2])
        self.size.copy_(size)

    def forward(self, batch: Batch, engine: str = "blocks", _: Executor = one_worker) -> Bundles:
        """Arrange a batch into bundles, as an engine of `GraphMetanetwork` wants them, for one worker."""
        if engine == "edge_list":
            return self._edge_list(batch)
        panels = arrange_matrices(batch, self.vocabulary, stacked=engine == "blocks")
        ends = [Ends(panel.source, panel.target) for panel in panels]
        if engine == "stream":
            return StreamedBundles(batch.num_nodes, ends, self, panels)
        return KeptBundles.joined(batch.num_nodes, ends, [self.encode(panel) for panel in panels])

    def encode(self, panel: MatrixPanel, matrices: slice = slice(None), rows: slice = slice(None)) -> Tensor:
        """Return the first states of some bundles of a panel. [G, T, S, hidden]"""
        values = self._values(panel)[matrices, rows].to(self.size.dtype)
        features = self._features(values, panel.kind, panel.shape[2])  # [G, T, S, K, F]
        position = (
            self.size.new_zeros(panel.taps, MAX_POSITIONS) if panel.position is None else panel.position
        )
        weights = self._tap_weights(position) / panel.taps**0.5
        return self._states(product(features.flatten(3), weights.flatten(0, 1).t()), panel.kind)

    def _values(self, panel: MatrixPanel) -> Tensor:  # [G, T, S, K, C]
        if panel.values is not None:
            return panel.values
        return self.size.new_ones(()).expand(*panel.shape, panel.taps, self.channels)

    def _features(self, values: Tensor, kind: int, fan_in: int) -> Tensor:  # [..., C] -> [..., F]
        scaled = values * (fan_in**0.5 / self.size[kind])
        return torch.cat([signed_log(SHARPNESS * scaled), (scaled.abs() + SMALL).log()], dim=-1)

    def _tap_weights(self, position: Tensor) -> Tensor:  # [n, 3] -> [n, F, hidden]
        """Return what taps are contracted with; one without a position counts as one in the centre does."""
        return self.tap(position_features(position.to(self.size.dtype))).view(len(position), -1, self.hidden)

    def _states(self, contracted: Tensor, kind: int) -> Tensor:  # [G, T, S, hidden]
        first = contracted + self.kind.weight[kind]
        return first + self.mix(first)

    def _edge_list(self, batch: Batch) -> Bundles:
        """Sum over an explicit list of edges: the reference that the other engines must equal."""
        ends, states = [], []
        for stack in batch.stacks:
            starts = torch.tensor([batch.node_starts[member] for member in stack.members])[:, None]
            for number, layout in block_layouts(stack.graph).matrices.items():
                block, count = layout.block, len(stack.members)
                shape = [1 if dim in layout.taps else length for dim, length in enumerate(block.shape)]
                pairs = (starts + end.expand(shape).reshape(-1) for end in (block.source, block.target))
                ends.append(Ends(*(pair.reshape(-1, 1).to(batch.device) for pair in pairs)))
                bundles = ends[-1].num_bundles
                bundle = torch.arange(bundles, device=batch.device).view(count, *shape)
                bundle = bundle.expand(count, *block.shape).reshape(-1)  # of each edge
                (kind,) = self.vocabulary.rows("edge_kinds", [block.kind], batch.names[stack.members[0]])
                values = stack.block_values(number).to(self.size).reshape(len(bundle), -1)  # [E, C]
                features = self._features(values, kind, layout.shape[2])
                position = layout.edge_position().to(batch.device).repeat(count, 1)
                weights = self._tap_weights(position) / layout.shape[3] ** 0.5
                terms = (features[:, :, None] * weights).sum(1)  # [E, hidden]
                contracted = terms.new_zeros(bundles, self.hidden).index_add(0, bundle, terms)
                states.append(self._states(contracted[:, None, None], kind))
        return KeptBundles(batch.num_nodes, ends, states)


@dataclass(eq=False)
class Bundles(ABC):
    """The bundles of a batch while blocks run on it."""

    num_nodes: int
    ends: Sequence[Ends]

    def __post_init__(self) -> None:
        self.source = torch.cat([ends.source.reshape(-1) for ends in self.ends])
        self.target = torch.cat([ends.target.reshape(-1) for ends in self.ends])
        self.degree = [self._counts(1), self._counts(0)]

    def send(self, block: BundlePassing, terms: Terms) -> list[Tensor]:
        """Send messages, update states, and return the mean of what nodes receive. 2 times [N, inner]"""
        sums = self.messages(block, terms)
        indices = (self.target, self.source)
        return [
            own.new_zeros(self.num_nodes, own.shape[-1]).index_add(0, index, own) / degree.to(own)
            for own, index, degree in zip(sums, indices, self.degree, strict=True)
        ]

    @abstractmethod
    def messages(self, block: BundlePassing, terms: Terms) -> tuple[Tensor, Tensor]:
        """Return sums of messages at `target` and at `source`."""

    def gathered(self, terms: Terms) -> list[tuple[Tensor, Tensor]]:
        """Gather the terms of nodes at both ends of each panel. [G, S, i], [G, T, i]"""
        found = []
        for values, index, end in ((terms.source, self.source, 0), (terms.target, self.target, 1)):
            shapes = [ends[end].shape for ends in self.ends]
            parts = values.index_select(0, index).split([shape.numel() for shape in shapes])
            found.append([part.view(*shape, -1) for part, shape in zip(parts, shapes, strict=True)])
        return list(zip(*found, strict=True))

    def _counts(self, end: int) -> Tensor:
        """Return the number of bundles into (1) or out of (0) each node, at least 1. [N, 1]"""
        index = (self.source, self.target)[end]
        times = [index.new_full((ends[end].numel(),), ends[1 - end].shape[1]) for ends in self.ends]
        counts = index.new_zeros(self.num_nodes).index_add(0, index, torch.cat(times))
        return counts.clamp(min=1)[:, None]


@dataclass(eq=False)
class KeptBundles(Bundles):
    """Bundles whose states are kept from block to block."""

    states: list[Tensor]  # by panel, [G, T, S, hidden]

    @staticmethod
    def joined(num_nodes: int, ends: list[Ends], states: list[Tensor]) -> KeptBundles:
        """Join panels of few bundles into one list: each panel takes time of its own."""
        small = [number for number, own in enumerate(ends) if own.num_bundles < LIST_BELOW]
        large = [number for number, own in enumerate(ends) if own.num_bundles >= LIST_BELOW]
        found, kept = [ends[number] for number in large], [states[number] for number in large]
        if small:
            listed = [ends[number].listed() for number in small]
            found.append(Ends(*(torch.cat(part) for part in zip(*listed, strict=True))))
            kept.append(torch.cat([states[number].flatten(0, 2) for number in small])[:, None, None])
        return KeptBundles(num_nodes, found, kept)

    def messages(self, block: BundlePassing, terms: Terms) -> tuple[Tensor, Tensor]:
        to_target, to_source = [], []
        for number, (source, target) in enumerate(self.gathered(terms)):
            messages = block.messages(self.states[number], source, target)
            to_target.append(messages.sum(2).flatten(0, 1))
            to_source.append(messages.sum(1).flatten(0, 1))
            if block.edge_update is not None:
                self.states[number] = block.updated(self.states[number], messages)
        return torch.cat(to_target), torch.cat(to_source)


@dataclass(eq=False)
class StreamedBundles(Bundles):
    """Bundles without states: each block starts from the weights and repeats all earlier updates."""

    encoder: BundleEncoder
    panels: list[MatrixPanel]
    earlier: list[tuple[BundlePassing, Terms]] = field(default_factory=list)

    def messages(self, block: BundlePassing, terms: Terms) -> tuple[Tensor, Tensor]:
        layers = [*self.earlier, (block, terms)]
        self.earlier = layers
        gathered = zip(*(self.gathered(own) for _, own in layers), strict=True)
        blocks, to_target, to_source = [own for own, _ in layers], [], []
        for panel, ends in zip(self.panels, gathered, strict=True):
            to_source.append(torch.zeros_like(ends[-1][0]))
            rows_of: dict[int, list[Tensor]] = {}
            for matrices, rows in pieces((*panel.shape, panel.taps), PIECE // self.encoder.hidden):
                cut = [(source[matrices], target[matrices, rows]) for source, target in ends]
                to_rows, to_columns = checkpoint(
                    self._piece, panel, matrices, rows, blocks, cut, use_reentrant=False
                )
                rows_of.setdefault(matrices.start, []).append(to_rows)
                to_source[-1][matrices] += to_columns
            to_target += [torch.cat(parts, dim=1).flatten(0, 1) for parts in rows_of.values()]
        return torch.cat(to_target), torch.cat([own.flatten(0, 1) for own in to_source])

    def _piece(
        self,
        panel: MatrixPanel,
        matrices: slice,
        rows: slice,
        blocks: list[BundlePassing],
        ends: list[tuple[Tensor, Tensor]],
    ) -> tuple[Tensor, Tensor]:
        states = self.encoder.encode(panel, matrices, rows)
        for block, (source, target) in zip(blocks[:-1], ends, strict=False):
            states = block.updated(states, block.messages(states, source, target))
        messages = blocks[-1].messages(states, *ends[-1])
        return messages.sum(2), messages.sum(1)
