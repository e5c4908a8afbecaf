"""Encoders: initial states of nodes and edges from kinds, depths, indices, positions and weights."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from math import pi
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from graph_metanetworks.graph.batch import Batch
from graph_metanetworks.graph.parameter_graph import ParameterGraph
from graph_metanetworks.graph.parts import MAX_POSITIONS
from graph_metanetworks.nn.engine.panel import Panel
from graph_metanetworks.nn.engine.scratch import scratch_buffer
from graph_metanetworks.nn.fitted import Fitted, refilled
from graph_metanetworks.nn.mlp import add_product
from graph_metanetworks.nn.state import graph_degrees
from graph_metanetworks.nn.vocabulary import Vocabulary, tensor_name, tensor_rows

NUM_FREQUENCIES = 8  # sine and cosine pairs for depths and indices
SMALL = 0.1  # features of a weight far below it show its sign rather than its size


def sinusoids(numbers: Tensor, longest: float = 10_000.0) -> Tensor:
    """Encode integers by sines and cosines of geometrically spaced periods. [n] -> [n, 2 NUM_FREQUENCIES]"""
    frequencies = longest ** -(torch.arange(NUM_FREQUENCIES, device=numbers.device) / NUM_FREQUENCIES)
    angles = numbers[:, None] * frequencies
    return torch.cat([angles.sin(), angles.cos()], dim=1)


class NodeEncoder(nn.Module):
    """Initial node states from kind, depth, activation function, degree, and index where a node has one.

    The degree is included because a mean over neighbours does not show how many there are: without it a
    network with one attention head looks like one with four.
    """

    def __init__(self, hidden: int, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.kind = nn.Embedding(len(vocabulary.node_kinds), hidden)
        self.activation = nn.Embedding(len(vocabulary.activations), hidden)
        self.depth = nn.Linear(2 * NUM_FREQUENCIES, hidden, bias=False)
        self.index = nn.Linear(2 * NUM_FREQUENCIES, hidden, bias=False)
        self.degree = nn.Linear(2, hidden, bias=False)

    def forward(self, batch: Batch) -> Tensor:  # [N, hidden]
        """Encode the nodes of a batch. The states do not depend on weights."""
        stacks = [(stack.graph, batch.names[stack.members[0]]) for stack in batch.stacks]
        states = self._states([node_features(graph, self.vocabulary, name) for graph, name in stacks])
        return states.index_select(0, _stack_nodes(batch).to(states.device))

    def encode(self, graph: ParameterGraph, name: str) -> Tensor:
        """Encode the nodes of one graph."""
        return self._states([node_features(graph, self.vocabulary, name)])

    def _states(self, found: list[NodeFeatures]) -> Tensor:
        like = self.kind.weight

        def joined(name: str) -> Tensor:
            feature = torch.cat([getattr(own, name) for own in found])
            return feature.to(like) if feature.is_floating_point() else feature.to(like.device)

        first, *names = [entry.name for entry in fields(NodeFeatures)]  # there is a layer for each
        states = getattr(self, first)(joined(first))
        for name in names:  # one after the other: large networks have many nodes
            states = states + getattr(self, name)(joined(name))
        return states


def _stack_nodes(batch: Batch) -> Tensor:
    """Return the row of each node of a batch in a table that has the nodes of each architecture once. [N]"""
    rows, first = {}, 0
    for stack in batch.stacks:
        own = torch.arange(first, first + stack.graph.num_nodes)
        rows |= dict.fromkeys(stack.members, own)
        first += stack.graph.num_nodes
    return torch.cat([rows[network] for network in range(len(batch))])


@dataclass(frozen=True, eq=False)
class NodeFeatures:
    """What an encoder knows of the nodes of a graph."""

    kind: Tensor  # [N] rows of a vocabulary
    activation: Tensor  # [N] rows
    depth: Tensor  # [N, 2 NUM_FREQUENCIES]
    degree: Tensor  # [N, 2]
    index: Tensor  # [N, 2 NUM_FREQUENCIES]; 0 without an index


_FEATURES: WeakKeyDictionary[ParameterGraph, tuple[Vocabulary, NodeFeatures]] = WeakKeyDictionary()


def node_features(graph: ParameterGraph, vocabulary: Vocabulary, name: str) -> NodeFeatures:
    """Return the features of one graph's nodes, cached. `name` is what errors call the network."""
    if graph not in _FEATURES or _FEATURES[graph][0] is not vocabulary:
        kinds = torch.tensor(vocabulary.rows("node_kinds", graph.node_kinds, name))
        functions = torch.tensor(vocabulary.rows("activations", graph.activations, name))
        indices = [index for index in (graph.node_index, graph.node_head) if index is not None]
        features = NodeFeatures(
            kinds[graph.node_kind],
            functions[graph.node_activation],
            sinusoids(graph.node_depth),
            graph_degrees(graph).log1p(),
            sum((sinusoids(index) * (index >= 0)[:, None] for index in indices), torch.zeros(1)),
        )
        _FEATURES[graph] = vocabulary, features
    return _FEATURES[graph][1]


class EdgeEncoder(Fitted):
    """Initial edge states from the weight, its kind, and its position among parallel edges.

    Weights are standardized first: `(w - mean) / deviation`, fixed per kind or, after `fit`, per tensor. Then
    each kind or tensor has a learned shift and scale. Statistics are per tensor, never per element, so the
    encoder is equivariant. The features of a weight are the weight itself, a squashed copy and the logarithm
    of its size: the means of the first two are near zero in most tensors, whatever their scale. The depth of
    an edge and the activation function of its target reach it from its nodes, with the first update.

    Args:
        hidden: width of edge states.
        channels: numbers on each edge: 1 for weights, 2 for weights and gradients, ...
        fourier: pairs of sine and cosine features of each weight.
        tensors: names of parameters with their own scale, in addition to the tensors that `fit` finds.
    """

    def __init__(
        self,
        hidden: int,
        vocabulary: Vocabulary,
        *,
        channels: int = 1,
        fourier: int = 0,
        tensors: Iterable[str] = (),
    ) -> None:
        super().__init__()
        self.vocabulary, self.channels, self.fourier = vocabulary, channels, fourier
        self.kind = nn.Embedding(len(vocabulary.edge_kinds), hidden)
        self.value = nn.Linear(channels * (3 + 2 * fourier), hidden, bias=False)
        self.position = nn.Linear(4 * MAX_POSITIONS, hidden, bias=False)
        self.set_fitted_names(tensors)

    def make_tables(self) -> None:
        """Make neutral scales: a row for each kind, then one for each fitted tensor."""
        rows = len(self.vocabulary.edge_kinds) + len(self.fitted_names)
        like = self.kind.weight
        self.mean = nn.Buffer(like.new_zeros(rows, self.channels))
        self.deviation = nn.Buffer(like.new_ones(rows, self.channels))
        self.shift = refilled(getattr(self, "shift", None), like.new_zeros(rows, self.channels))
        self.log_scale = refilled(getattr(self, "log_scale", None), like.new_zeros(rows, self.channels))

    # -------------------------------------------------------------- scale

    def fit(self, batches: Iterable[Batch]) -> None:
        """Take the mean and deviation of each tensor, by name, and of each kind from a training zoo.

        Call it before the first step of an optimizer: parameters get a row per tensor.
        """
        kinds = len(self.vocabulary.edge_kinds)
        moments: dict[str | int, Tensor] = {}
        for batch in batches:
            for stack in batch.stacks:
                rows = self.vocabulary.rows(
                    "edge_kinds", [b.kind for b in stack.graph.blocks], stack.graph.name
                )
                for number, (block, row) in enumerate(zip(stack.graph.blocks, rows, strict=True)):
                    if block.parameter is not None and block.is_owner:
                        values = stack.block_values(number)  # [networks, *shape, channels]
                        found = moments_of(values.reshape(len(values), -1, values.shape[-1]))
                        for key in (tensor_name(block), row):
                            moments[key] = moments.get(key, 0) + found
        names = (key for key in moments if isinstance(key, str))
        self.set_fitted_names(dict.fromkeys([*self.fitted_names, *names]))
        for key, (count, total, squares) in ((key, m.unbind()) for key, m in moments.items()):
            row = key if isinstance(key, int) else kinds + self.fitted_names.index(key)
            mean = total / count
            self.mean[row] = mean.to(self.mean)
            self.deviation[row] = (
                (squares / count - mean.square()).clamp(min=0).sqrt().clamp(min=1e-6).to(self.mean)
            )

    def rows(self, panel: Panel, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the row of the kind and the row of the scale of each use of a panel. [uses] each"""
        kinds = panel.kinds(self.vocabulary, batch)
        scales = tensor_rows(self.fitted_names, panel.blocks(batch), kinds, len(self.vocabulary.edge_kinds))
        device = self.kind.weight.device
        return torch.tensor(kinds, device=device), torch.tensor(scales, device=device)

    # -------------------------------------------------------------- states

    def terms(self, panel: Panel, batch: Batch) -> list[Tensor]:
        """Return the inputs of `states` on the edges of a panel, each broadcastable to its shape."""
        kinds, scales = self.rows(panel, batch)
        base = self.kind(kinds)[panel.use]
        if panel.position is not None:
            base = base + self.position(position_features(panel.position.to(base.dtype)))
        factor = self.log_scale[scales].exp() / self.deviation[scales]
        offset = self.shift[scales] - self.mean[scales] * factor
        return [panel.values, base, factor[panel.use], offset[panel.use]]

    def weights(self) -> list[Tensor]:
        return [self.value.weight]

    def states(self, terms: list[Tensor], weights: list[Tensor]) -> Tensor:
        """Return initial edge states, `[*piece, hidden]`."""
        values, base, factor, offset = terms
        features = self.features(values, factor, offset)
        out = scratch_buffer("states", values.to(factor.dtype), base.shape[-1])
        if out is not None:
            base = out.copy_(base)
        return add_product(base, features, weights[0], out=out)

    def features(self, values: Tensor, factor: Tensor, offset: Tensor) -> Tensor:
        """Return the features of weights. [*piece, channels] -> [*piece, channels * (3 + 2 fourier)]"""
        values, channels = values.to(factor.dtype), values.shape[-1]
        scaled = torch.mul(values, factor, out=scratch_buffer("scaled", values, channels)).add_(offset)
        size = torch.abs(scaled, out=scratch_buffer("size", values, channels)).add_(SMALL)
        soft = torch.div(scaled, size, out=scratch_buffer("soft", values, channels))
        features = [scaled, soft, torch.log(size, out=scratch_buffer("size", values, channels))]
        for octave in range(self.fourier):
            features += [(2**octave * pi * scaled).sin(), (2**octave * pi * scaled).cos()]
        out = scratch_buffer("features", values, channels * len(features))
        if out is not None:
            out = out.view(len(features), *values.shape)
        # stacking along the first dimension is faster than along the last
        return torch.stack(features, out=out).movedim(0, -2).flatten(-2)


def position_features(position: Tensor) -> Tensor:
    """Encode offsets from the centre, in [-1/2, 1/2]; features are 0 there. [..., 3] -> [..., 12]"""
    angles = pi * position
    return torch.cat([angles.sin(), 1 - angles.cos(), (4 * angles).sin(), 1 - (4 * angles).cos()], dim=-1)


def moments_of(weights: Tensor) -> Tensor:
    """Return count, sum and sum of squares of each channel, in float64. [n, m, C] -> [3, C]"""
    weights = weights.double()
    count = torch.full_like(weights[0, 0], weights.shape[0] * weights.shape[1])
    return torch.stack([count, weights.sum((0, 1)), weights.square().sum((0, 1))])
