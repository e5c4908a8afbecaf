"""Blocks without edge states: node states are multiplied by the weights, as in a forward pass."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

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


@dataclass(frozen=True, eq=False)
class WeightedPanel:
    """A panel, ready to be multiplied by states."""

    panel: MatrixPanel
    scale: Tensor  # [G, P]
    ratio: float  # scale of messages against the edges
    patterns: Tensor | None = None  # [K, R]
    matrices: list[Tensor] | None = None  # [G, T, S] for each plane; None: made when needed, or structural

    def messages(self, along: Tensor, against: Tensor) -> tuple[Tensor, Tensor]:
        """Shapes: [G, S, P, d], [G, T, P, d] -> [G, T, d], [G, S, d]"""
        if self.panel.values is None:
            return spread_sums(along, against, self.panel.taps)
        if self.matrices is None:
            return streamed(self.panel.values, self.patterns, along, against)
        return multiply(self.matrices, along, against)


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
        total = torch.zeros(*self.size.shape, dtype=torch.float64)
        count = torch.zeros(len(total), 1, dtype=torch.float64)
        for batch in batches:
            for panel in arrange_matrices(batch, self.vocabulary, stacked=True):
                kind = panel.kind.cpu()
                total.index_add_(0, kind, _mean_squares(panel, self.channels) * panel.fan_in)
                count.index_add_(0, kind, torch.ones(len(kind), 1, dtype=torch.float64))
        size = (total / count.clamp(min=1)).sqrt()
        self.size.copy_(torch.where((size > 0) & size.isfinite(), size, 1))

    def forward(self, batch: Batch, engine: str = "blocks") -> list[WeightedPanel]:
        """Arrange a batch into panels, as an engine of `GraphMetanetwork` wants them."""
        if engine == "edge_list":
            return self._edge_list(batch)
        keep = engine == "blocks"
        return [
            self._weighted(panel, keep) for panel in arrange_matrices(batch, self.vocabulary, stacked=keep)
        ]

    def _weighted(self, panel: MatrixPanel, keep: bool) -> WeightedPanel:
        _, rows, columns = panel.shape
        scale, ratio = 1 / self.size[panel.kind], (columns / rows) ** 0.5  # [G, C]
        if panel.values is None:
            return WeightedPanel(panel, scale[:, :1], ratio)
        patterns = None if panel.position is None else self._patterns(panel.position)
        matrices = planes(panel.values, patterns, scale.dtype) if keep else None
        return WeightedPanel(panel, self._by_plane(scale, patterns), ratio, patterns, matrices)

    def _patterns(self, position: Tensor) -> Tensor:  # [K, 3] -> [K, R]
        return self.pattern(position_features(position.to(self.size.dtype)))

    def _by_plane(self, scale: Tensor, patterns: Tensor | None) -> Tensor:  # [G, C] -> [G, P]
        parts = [scale, scale.square()]
        if patterns is not None:
            parts.append(scale.repeat_interleave(patterns.shape[1], dim=1))
        return torch.cat(parts, dim=1)

    def _edge_list(self, batch: Batch) -> list[WeightedPanel]:
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
                row = self.vocabulary.rows("edge_kinds", [block.kind], batch.names[stack.members[0]])[0]
                kind = torch.full((len(source),), row, device=batch.device)
                values = (
                    stack.block_values(number).to(self.size).reshape(len(source), -1, 1, 1)
                )  # [E, C, 1, 1]
                scale, patterns = (1 / self.size[kind]), None
                matrices = [*values.unbind(1), *values.square().unbind(1)]
                if block.parameter is None:
                    scale, matrices = scale[:, :1], matrices[:1]
                else:
                    if layout.position is not None:
                        patterns = self._patterns(layout.edge_position().to(batch.device)).repeat(count, 1)
                        weighted = values * patterns[:, None, :, None]  # [E, C, R, 1]
                        matrices += [plane[..., None] for plane in weighted.flatten(1, 2).unbind(1)]
                    scale = self._by_plane(scale, patterns)
                ratio = (layout.shape[2] / layout.shape[1]) ** 0.5
                panel = MatrixPanel(values[..., None], source, target, kind, 1, None)
                found.append(WeightedPanel(panel, scale, ratio, matrices=matrices))
        return found


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
        self.gain = nn.Parameter(torch.ones(2, kinds, num_planes))
        self.update = Mlp(3 * hidden, inner or 2 * hidden, hidden)

    def forward(self, nodes: Tensor, panels: list[WeightedPanel]) -> Tensor:  # [N, hidden] -> [N, hidden]
        normed = self.norm(nodes)
        to_targets, to_sources = torch.zeros_like(nodes), torch.zeros_like(nodes)
        for own in panels:
            panel = own.panel
            along = self._sent(normed, 0, panel.source, own)
            against = self._sent(normed, 1, panel.target, own) * own.ratio
            to_target, to_source = own.messages(along, against)
            to_targets = to_targets.index_add(0, panel.target.reshape(-1), to_target.flatten(0, 1))
            to_sources = to_sources.index_add(0, panel.source.reshape(-1), to_source.flatten(0, 1))
        received = [signed_log(to_targets), signed_log(to_sources)]
        return nodes + self.update(torch.cat([normed, *received], dim=1))

    def _sent(self, normed: Tensor, direction: int, nodes: Tensor, own: WeightedPanel) -> Tensor:
        """Return what nodes `[G, n]` send through each plane of a panel. [G, n, P, hidden]"""
        count = own.scale.shape[1]
        mix = self.mix[direction, :count].reshape(-1, self.hidden)
        sent = F.linear(normed.index_select(0, nodes.reshape(-1)), mix)
        factor = self.gain[direction, own.panel.kind, :count] * own.scale
        return sent.view(*nodes.shape, count, self.hidden) * factor[:, None, :, None]
