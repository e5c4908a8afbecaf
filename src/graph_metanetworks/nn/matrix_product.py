"""Blocks without edge states: node states are multiplied by the weights, as in a forward pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from graph_metanetworks.graph.batch import Batch
from graph_metanetworks.graph.parts import MAX_POSITIONS
from graph_metanetworks.nn.encoders import position_features
from graph_metanetworks.nn.engine.matrices import MatrixPanel, arrange_matrices, block_layouts
from graph_metanetworks.nn.engine.products import multiply, planes, spread_sums, streamed
from graph_metanetworks.nn.mlp import Mlp, signed_log
from graph_metanetworks.nn.vocabulary import Vocabulary

POSITION_FEATURES = 4 * MAX_POSITIONS


class PanelEnd(NamedTuple):
    """The nodes at one end of some panels, one after the other."""

    node: Tensor  # [n] node numbers in the batch
    kind: Tensor  # [n] the kind of edge
    scale: Tensor  # [n, P] of what is sent from here through each plane; 0 for planes that a panel lacks
    sizes: list[int]  # of each panel


@dataclass(frozen=True, eq=False)
class WeightedPanels:
    """Panels that are multiplied together: what nodes send is gathered once for all of them."""

    panels: list[MatrixPanel]
    patterns: list[Tensor | None]  # [K, R]
    matrices: list[list[Tensor] | None]  # [G, T, S] for each plane; None: made when needed, or structural
    source: PanelEnd
    target: PanelEnd

    def messages(self, along: Tensor, against: Tensor) -> tuple[Tensor, Tensor]:
        """Multiply what is sent by the weights. Shapes: [sources, P, d], [targets, P, d] -> [.., d] each"""
        to_targets, to_sources = [], []
        parts = zip(along.split(self.source.sizes), against.split(self.target.sizes), strict=True)
        for number, (panel, (out, back)) in enumerate(zip(self.panels, parts, strict=True)):
            count, rows, columns = panel.shape
            sent = (out.view(count, columns, *out.shape[1:]), back.view(count, rows, *back.shape[1:]))
            to_target, to_source = self._messages(number, *sent)
            to_targets.append(to_target.flatten(0, 1))
            to_sources.append(to_source.flatten(0, 1))
        return torch.cat(to_targets), torch.cat(to_sources)

    def _messages(self, number: int, along: Tensor, against: Tensor) -> tuple[Tensor, Tensor]:
        panel, matrices = self.panels[number], self.matrices[number]
        if panel.values is None:
            return spread_sums(along[:, :, :1], against[:, :, :1], panel.taps)
        if matrices is None:
            return streamed(panel.values, self.patterns[number], along, against)
        return multiply(matrices, along, against)


class WeightMatrices(nn.Module):
    r"""Turn the weights of edge blocks into matrices with one entry per pair of neurons.

    Several weights between the same two neurons (taps of a kernel, flattened positions) are summed: as they
    are, squared, and weighted by learned patterns over their positions. Weights are divided by
    :math:`\sqrt{\mathrm{mean}(w^2) \cdot \text{fan-in}}` of their kind, which `fit` takes from a training
    zoo, so that sums over the inputs of a neuron have the same scale at every width.

    Args:
        channels: numbers on each edge.
        patterns: learned patterns over the positions of taps.
    """

    def __init__(self, vocabulary: Vocabulary, *, channels: int = 1, patterns: int = 1) -> None:
        super().__init__()
        self.vocabulary, self.channels = vocabulary, channels
        self.pattern = nn.Linear(POSITION_FEATURES, patterns, bias=False)
        self.size = nn.Buffer(torch.ones(len(vocabulary.edge_kinds), channels))  # sqrt(mean(w^2) fan-in)

    @property
    def num_planes(self) -> int:
        """The number of matrices that a panel can have."""
        return self.channels * (2 + self.pattern.out_features)

    @torch.no_grad()
    def fit(self, batches: Iterable[Batch]) -> None:
        """Take the size of the weights of each kind of edge from a training zoo."""
        size = sizes_by_kind(batches, self.vocabulary, self.channels, lambda panel: panel.fan_in)
        self.size.copy_(size)

    def forward(self, batch: Batch, engine: str = "blocks") -> list[WeightedPanels]:
        """Arrange a batch into panels, as an engine of `GraphMetanetwork` wants them."""
        if engine == "edge_list":
            return self._edge_list(batch)
        keep = engine == "blocks"
        panels = arrange_matrices(batch, self.vocabulary, stacked=keep)
        return [self._weighted(own, keep) for own in ([panels] if keep else [[panel] for panel in panels])]

    def _weighted(self, panels: list[MatrixPanel], keep: bool) -> WeightedPanels:
        patterns = [None if panel.position is None else self._patterns(panel.position) for panel in panels]
        dtype = self.size.dtype
        matrices = [
            planes(panel.values, own, dtype) if keep and panel.values is not None else None
            for panel, own in zip(panels, patterns, strict=True)
        ]
        ratios = [(panel.shape[2] / panel.shape[1]) ** 0.5 for panel in panels]
        source = self._end([panel.source for panel in panels], panels, [1.0] * len(panels))
        target = self._end([panel.target for panel in panels], panels, ratios)
        return WeightedPanels(panels, patterns, matrices, source, target)

    def _end(self, nodes: list[Tensor], panels: list[MatrixPanel], factors: list[float]) -> PanelEnd:
        kinds = [panel.kind.repeat_interleave(own.shape[1]) for own, panel in zip(nodes, panels, strict=True)]
        kind = torch.cat(kinds)
        factor = torch.cat(
            [self.size.new_full((own.numel(),), f) for own, f in zip(nodes, factors, strict=True)]
        )
        scale = 1 / self.size[kind]  # [n, C]
        by_pattern = scale.repeat_interleave(self.pattern.out_features, dim=1)
        # a gradient for every parameter, also without taps: processes that train together wait for each
        by_pattern = by_pattern + 0 * self.pattern.weight.sum()
        scale = torch.cat([scale, scale.square(), by_pattern], dim=1)
        node = torch.cat([own.reshape(-1) for own in nodes])
        return PanelEnd(node, kind, scale * factor[:, None], [own.numel() for own in nodes])

    def _patterns(self, position: Tensor) -> Tensor:  # [K, 3] -> [K, R]
        return self.pattern(position_features(position.to(self.size.dtype)))

    def _edge_list(self, batch: Batch) -> list[WeightedPanels]:
        """Make a matrix of each single edge: the reference that the other engines must equal."""
        found = []
        for stack in batch.stacks:
            starts = torch.tensor([batch.node_starts[member] for member in stack.members])[:, None]
            for number, layout in block_layouts(stack.graph).matrices.items():
                block, count = layout.block, len(stack.members)
                source, target = (
                    (starts + end.expand(block.shape).reshape(-1)).reshape(-1, 1).to(batch.device)
                    for end in (block.source, block.target)
                )
                (row,) = self.vocabulary.rows("edge_kinds", [block.kind], batch.names[stack.members[0]])
                kind = torch.full((len(source),), row, device=batch.device)
                values = stack.block_values(number).to(self.size).reshape(len(kind), -1, 1, 1)  # [E, C, 1, 1]
                panel = MatrixPanel(values[..., None], source, target, kind, 1, None)
                matrices = [*values.unbind(1), *values.square().unbind(1)]
                if block.parameter is None:
                    matrices = matrices[:1]
                elif layout.position is not None:
                    patterns = self._patterns(layout.edge_position().to(batch.device)).repeat(count, 1)
                    weighted = values * patterns[:, None, :, None]  # [E, C, R, 1]
                    matrices += [plane[..., None] for plane in weighted.flatten(1, 2).unbind(1)]
                ratio = (layout.shape[2] / layout.shape[1]) ** 0.5
                ends = (self._end([source], [panel], [1.0]), self._end([target], [panel], [ratio]))
                found.append(WeightedPanels([panel], [None], [matrices], *ends))
        return found


def sizes_by_kind(
    batches: Iterable[Batch], vocabulary: Vocabulary, channels: int, fan_in: Callable[[MatrixPanel], int]
) -> Tensor:
    """Return the root of mean(w^2) * fan-in of each kind of edge, 1 for kinds without weights. [kinds, C]"""
    total = torch.zeros(len(vocabulary.edge_kinds), channels, dtype=torch.float64)
    count = torch.zeros(len(total), 1, dtype=torch.float64)
    for batch in batches:
        for panel in arrange_matrices(batch, vocabulary, stacked=True):
            kind = panel.kind.cpu()
            total.index_add_(0, kind, _mean_squares(panel, channels) * fan_in(panel))
            count.index_add_(0, kind, torch.ones(len(kind), 1, dtype=torch.float64))
    size = (total / count.clamp(min=1)).sqrt()
    return torch.where((size > 0) & size.isfinite(), size, 1)


def _mean_squares(panel: MatrixPanel, channels: int) -> Tensor:  # [G, C]
    if panel.values is None:
        return torch.ones(len(panel.kind), channels, dtype=torch.float64)
    return panel.values.double().square().mean((1, 2, 3)).cpu()


class MatrixProduct(nn.Module):
    r"""Multiply node states by the weights of the network, along its edges and against them.

    .. math::
        m_t &= \textstyle\sum_p \sum_s V_p[t, s] \, A_p h_s, \qquad
        \bar m_s = \sqrt{S / T} \, \textstyle\sum_p \sum_t V_p[t, s] \, \bar A_p h_t \\
        h &\gets h + \mathrm{MLP}(h, \ell(m), \ell(\bar m))

    where :math:`V_p` are the matrices of `WeightMatrices`, multiplied by a learned gain for each kind of
    edge, and :math:`\ell(x) = \mathrm{sign}(x) \log(1 + |x|)`. Messages are summed, not averaged: with the
    scale of `WeightMatrices` they have the same size at every width.

    Args:
        hidden: width of node states.
        num_planes: number of matrices, as `WeightMatrices` has them.
        kinds: number of kinds of edges.
        inner: width inside the MLP; twice `hidden` by default.
    """

    def __init__(self, hidden: int, num_planes: int, kinds: int, inner: int | None = None) -> None:
        super().__init__()
        self.hidden = hidden
        self.norm = nn.LayerNorm(hidden)
        bound = hidden**-0.5
        self.mix = nn.Parameter(torch.empty(2, num_planes, hidden, hidden).uniform_(-bound, bound))  # A
        # not all 1: kinds of edges must differ from the start
        self.gain = nn.Parameter(1 + 0.1 * torch.randn(2, kinds, num_planes))
        self.update = Mlp(3 * hidden, inner or 2 * hidden, hidden)

    def forward(self, nodes: Tensor, weighted: list[WeightedPanels]) -> Tensor:  # [N, hidden] -> [N, hidden]
        normed = self.norm(nodes)
        to_targets, to_sources = torch.zeros_like(nodes), torch.zeros_like(nodes)
        for panels in weighted:
            along, against = self._sent(normed, 0, panels.source), self._sent(normed, 1, panels.target)
            to_target, to_source = panels.messages(along, against)
            to_targets = to_targets.index_add(0, panels.target.node, to_target)
            to_sources = to_sources.index_add(0, panels.source.node, to_source)
        received = [signed_log(to_targets), signed_log(to_sources)]
        return nodes + self.update(torch.cat([normed, *received], dim=1))

    def _sent(self, normed: Tensor, direction: int, end: PanelEnd) -> Tensor:
        """Return what the nodes at one end send through each plane. [n, P, hidden]"""
        mix = self.mix[direction].flatten(0, 1)
        if len(end.node) < len(normed):
            sent = F.linear(normed.index_select(0, end.node), mix)
        else:
            sent = F.linear(normed, mix).index_select(0, end.node)
        factor = self.gain[direction].index_select(0, end.kind) * end.scale
        return sent.view(len(end.node), -1, self.hidden) * factor[..., None]
