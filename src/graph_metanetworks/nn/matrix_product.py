"""Blocks without edge states: node states are multiplied by the weights, as in a forward pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from math import log
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from graph_metanetworks.graph.batch import Batch
from graph_metanetworks.graph.parts import MAX_POSITIONS
from graph_metanetworks.nn.encoders import position_features
from graph_metanetworks.nn.engine.matrices import MatrixPanel, arrange_matrices, block_layouts
from graph_metanetworks.nn.engine.products import multiply, planes, spread_sums, streamed
from graph_metanetworks.nn.engine.sweep import Executor, one_worker
from graph_metanetworks.nn.mlp import Mlp, signed_log, sine_and_cosine
from graph_metanetworks.nn.unary import SineUnits, sine_units
from graph_metanetworks.nn.vocabulary import Vocabulary

POSITION_FEATURES = 4 * MAX_POSITIONS
RATES = (0.3, 6.0)  # turns of sine units at first, from slow to fast
PIECE = 1 << 18  # numbers that are updated at once: temporary states of all nodes would be most of the memory


class Section(NamedTuple):
    """Panels of one kind with the same planes: they share the matrices that mix states."""

    kind: int
    num_planes: int
    panels: list[WeightedPanel]


@dataclass(frozen=True, eq=False)
class WeightedPanel:
    """A panel and its planes."""

    panel: MatrixPanel
    matrices: Tensor | None  # [G, T, P, S]; None: made when needed, or structural
    patterns: Tensor | None  # [K, R]
    executor: Executor = one_worker

    @property
    def num_targets(self) -> int:
        return self.panel.target.numel()

    def multiply(self, states: Tensor, sent: Tensor) -> tuple[Tensor, Tensor]:
        """Multiply by the weights. [n sources, d], [n targets, P d] -> [n targets, P d], [n sources, d]"""
        count, rows, columns = self.panel.shape
        states, sent = states.view(count, columns, -1), sent.view(count, rows, -1, states.shape[1])
        if self.matrices is not None:
            to_target, to_source = multiply(self.matrices, states, sent)
        elif self.panel.values is None:
            to_target, to_source = spread_sums(states, sent, self.panel.taps)
        else:
            to_target, to_source = streamed(self.panel.values, self.patterns, states, sent, self.executor)
        return to_target.reshape(count * rows, -1), to_source.reshape(count * columns, -1)


@dataclass(frozen=True, eq=False)
class WeightedPanels:
    """Panels that are multiplied together: states are gathered once for all of them."""

    sections: list[Section]
    source: Tensor  # [n] node numbers in the batch, panel by panel
    target: Tensor  # [m]
    ratio: Tensor | None  # [n, 1] scale of what sources get; None: 1
    scale: Tensor  # [sections, P] of the weights

    def messages(self, nodes: Tensor, mix: Tensor, back: Tensor) -> tuple[Tensor, Tensor]:
        """Return the messages to targets `[m, d]` and to sources `[n, d]`.

        Args:
            nodes: states. [N, d]
            mix: linear layers for each section on sums along edges. [sections, P, d, d]
            back: the same for what is sent against edges.
        """
        panels = [panel for section in self.sections for panel in section.panels]
        states = nodes.index_select(0, self.source).split([own.panel.source.numel() for own in panels])
        rows = [sum(own.num_targets for own in section.panels) for section in self.sections]
        ends = nodes.index_select(0, self.target).split(rows)
        to_targets, to_sources, rest = [], [], iter(states)
        for section, end, mixes, backs in zip(self.sections, ends, mix, back, strict=True):
            sent = F.linear(end, backs[: section.num_planes].flatten(0, 1))
            parts = sent.split([own.num_targets for own in section.panels])
            done = [own.multiply(next(rest), part) for own, part in zip(section.panels, parts, strict=True)]
            sums = _joined([to_target for to_target, _ in done])
            to_targets.append(F.linear(sums, mixes[: section.num_planes].movedim(0, 1).flatten(1)))
            to_sources += [to_source for _, to_source in done]
        to_source = _joined(to_sources)
        return _joined(to_targets), to_source if self.ratio is None else to_source * self.ratio


def _joined(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)


class WeightedBatch(NamedTuple):
    """What blocks need to know of a batch."""

    panels: list[WeightedPanels]
    sines: SineUnits


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

    def forward(self, batch: Batch, engine: str = "blocks", executor: Executor = one_worker) -> WeightedBatch:
        """Arrange a batch into panels, as an engine of `GraphMetanetwork` wants them.

        `executor` shares out the rows of matrices that stream. Autocast does not touch weights.
        """
        with torch.autocast(batch.device.type, enabled=False):
            panels = self._arranged(batch, engine, executor)
            return WeightedBatch(panels, sine_units(batch, self.vocabulary))

    def _arranged(self, batch: Batch, engine: str, executor: Executor) -> list[WeightedPanels]:
        if engine == "edge_list":
            return self._edge_list(batch)
        keep = engine == "blocks"
        panels = arrange_matrices(batch, self.vocabulary, stacked=keep)
        if keep:
            return [self._joined([self._weighted(panel, keep=True) for panel in panels])]
        return [
            self._joined([replace(self._weighted(panel, keep=False), executor=executor)]) for panel in panels
        ]

    def _weighted(self, panel: MatrixPanel, *, keep: bool) -> WeightedPanel:
        patterns = None if panel.position is None else self._patterns(panel.position)
        if panel.values is None or not keep:
            return WeightedPanel(panel, None, patterns)
        return WeightedPanel(panel, planes(panel.values, patterns, self.size.dtype), patterns)

    def _joined(self, panels: list[WeightedPanel]) -> WeightedPanels:
        by_kind: dict[tuple[int, int], list[WeightedPanel]] = {}
        for own in panels:
            by_kind.setdefault((own.panel.kind, self._num_planes(own)), []).append(own)
        sections = [Section(kind, count, own) for (kind, count), own in by_kind.items()]
        panels = [own for section in sections for own in section.panels]
        factors = [own.panel.ratio**0.5 for own in panels]
        ratio = None
        if any(factor != 1 for factor in factors):
            sizes = torch.tensor([own.panel.source.numel() for own in panels])
            ratio = torch.tensor(factors).repeat_interleave(sizes)[:, None].to(self.size)
        source = torch.cat([own.panel.source.reshape(-1) for own in panels])
        target = torch.cat([own.panel.target.reshape(-1) for own in panels])
        return WeightedPanels(sections, source, target, ratio, self._scale(sections))

    def _num_planes(self, own: WeightedPanel) -> int:
        if own.panel.values is None:
            return 1
        return self.channels * 2 if own.patterns is None else self.num_planes

    def _scale(self, sections: list[Section]) -> Tensor:  # [sections, P]
        scale = 1 / self.size[[section.kind for section in sections]]
        by_pattern = scale.repeat_interleave(self.pattern.out_features, dim=1)
        # a gradient for every parameter, also without taps: processes that train together wait for each
        by_pattern = by_pattern + 0 * self.pattern.weight.sum()
        return torch.cat([scale, scale.square(), by_pattern], dim=1)

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
                (kind,) = self.vocabulary.rows("edge_kinds", [block.kind], batch.names[stack.members[0]])
                values = (
                    stack.block_values(number).to(self.size).reshape(len(source), -1, 1, 1)
                )  # [E, C, 1, 1]
                patterns, matrices = None, [values, values.square()]
                if block.parameter is None:
                    matrices = [values[:, :1]]
                elif layout.position is not None:
                    patterns = self._patterns(layout.edge_position().to(batch.device)).repeat(count, 1)
                    matrices.append((values * patterns[:, None, :, None]).flatten(1, 2)[..., None])
                panel = MatrixPanel(
                    None if block.parameter is None else values[..., None],
                    *(source, target, kind, 1, None, layout.ratio),
                )
                planes_of_edges = torch.cat(matrices, dim=1).movedim(1, 2)  # [E, 1, P, 1]
                found.append(self._joined([WeightedPanel(panel, planes_of_edges, patterns)]))
        return found


def sizes_by_kind(
    batches: Iterable[Batch], vocabulary: Vocabulary, channels: int, fan_in: Callable[[MatrixPanel], int]
) -> Tensor:
    """Return the root of mean(w^2) * fan-in of each kind of edge, 1 for kinds without weights. [kinds, C]"""
    total = torch.zeros(len(vocabulary.edge_kinds), channels, dtype=torch.float64)
    count = torch.zeros(len(total), 1, dtype=torch.float64)
    for batch in batches:
        for panel in arrange_matrices(batch, vocabulary, stacked=True):
            total[panel.kind] += _mean_squares(panel, channels).sum(0) * fan_in(panel)
            count[panel.kind] += len(panel.target)
    size = (total / count.clamp(min=1)).sqrt()
    return torch.where((size > 0) & size.isfinite(), size, 1)


def _mean_squares(panel: MatrixPanel, channels: int) -> Tensor:  # [G, C]
    if panel.values is None:
        return torch.ones(len(panel.target), channels, dtype=torch.float64)
    return panel.values.double().square().mean((1, 2, 3)).cpu()


class MatrixProduct(nn.Module):
    r"""Multiply node states by the weights of the network, along its edges and against them.

    .. math::
        m_t &= \textstyle\sum_p \sum_s V_p[t, s] \, A_p h_s, \qquad
        \bar m_s = \sqrt{S / T} \, \textstyle\sum_p \sum_t V_p[t, s] \, \bar A_p h_t \\
        h &\gets h + \mathrm{MLP}(h, \ell(m), \ell(\bar m), \sin \varphi, \cos \varphi)

    where :math:`V_p` are the matrices of `WeightMatrices`, multiplied by a learned gain for each kind of
    edge, and :math:`\ell(x) = \mathrm{sign}(x) \log(1 + |x|)`. Messages are summed, not averaged: with the
    scale of `WeightMatrices` they have the same size at every width.

    What a sine unit sums is an angle, so its messages count by sine and cosine, too: :math:`\varphi = r m +
    \omega b` with a learned rate :math:`r`, and the phase of its bias. Other neurons have no such terms.

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
        self.rate = nn.Parameter(torch.linspace(log(RATES[0]), log(RATES[1]), hidden).exp())
        self.waves = nn.Linear(2 * hidden, inner or 2 * hidden, bias=False)
        nn.init.normal_(self.waves.weight, std=(2 / (5 * hidden)) ** 0.5)  # five inputs of the MLP

    def forward(self, nodes: Tensor, weighted: WeightedBatch) -> Tensor:  # [N, hidden] -> [N, hidden]
        normed = self.norm(nodes)
        to_targets, to_sources = torch.zeros_like(nodes), torch.zeros_like(nodes)
        # a gradient for every parameter, also without sines: processes that train together wait for each
        gain = self.gain + 0 * (self.rate.sum() + self.waves.weight.sum())
        for number, panels in enumerate(weighted.panels):
            kinds = [section.kind for section in panels.sections]
            factor = gain[:, kinds] * panels.scale  # [2, sections, P]
            to_target, to_source = panels.messages(normed, *(factor[..., None, None] * self.mix[:, None]))
            # a stream has a term for each matrix, and no room for a copy of all nodes each time
            add = Tensor.index_add_ if number else Tensor.index_add
            to_targets = add(to_targets, 0, panels.target, to_target.to(nodes.dtype))
            to_sources = add(to_sources, 0, panels.source, to_source.to(nodes.dtype))
        parts = [nodes, normed, to_targets, to_sources]
        if len(weighted.sines.node):
            parts.append(self._waves(to_targets, weighted.sines))
        rows = max(1, PIECE // self.hidden)
        pieces = zip(*(part.split(rows) for part in parts), strict=True)
        return _joined([self._updated(*piece) for piece in pieces])

    def _waves(self, to_targets: Tensor, sines: SineUnits) -> Tensor:
        """Return what sine units see of their angles, zero for other neurons. [N, inner]"""
        angle = to_targets[sines.node] * self.rate + sines.angle.to(to_targets)[:, None]
        seen = self.waves(sine_and_cosine(angle))
        return seen.new_zeros(len(to_targets), seen.shape[1]).index_copy(0, sines.node, seen)

    def _updated(
        self,
        nodes: Tensor,
        normed: Tensor,
        to_targets: Tensor,
        to_sources: Tensor,
        waves: Tensor | None = None,
    ) -> Tensor:
        seen = self.update.first(torch.cat([normed, signed_log(to_targets), signed_log(to_sources)], dim=1))
        return nodes + self.update.second((seen if waves is None else seen + waves).relu())
