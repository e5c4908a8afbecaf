"""Statement 7: what a bias node adds (appendix C.1.3), for metanetworks without a global feature.

With bias nodes, one layer computes the sum of a layer's biases on each of its bias edges. Where biases lie on
self-loops or in node features, no layer can: there are two networks that differ in this sum, but not in
anything that one layer can see from the first neuron.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random

import torch
from torch import Tensor

from graph_metanetworks.graph.batch import Batch, collate
from graph_metanetworks.graph.parameter_graph import ParameterGraph
from graph_metanetworks.nn.encoders import EdgeEncoder, NodeEncoder
from graph_metanetworks.nn.message_passing import AGGREGATIONS, MessagePassing
from graph_metanetworks.nn.metanetwork import GraphMetanetwork
from graph_metanetworks.nn.state import Links, State
from graph_metanetworks.nn.updates import EdgeUpdate, NodeUpdate
from graph_metanetworks.nn.vocabulary import Vocabulary
from graph_metanetworks.theory.features import IS_BIAS, VALUE, EdgeStates, by_hand
from graph_metanetworks.theory.networks import random_mlp
from graph_metanetworks.theory.statement import Trial
from graph_metanetworks.trace.tracer import trace

BIAS = "0.bias"  # of the first layer
HIDDEN = 8
FACTOR = 1.5  # the paper's scalar c


def trials(seed: int, count: int) -> Iterator[Trial]:
    random = Random(seed)
    for number in range(count):
        pair = Pair.random([random.randint(1, 3), random.randint(2, 4), random.randint(1, 3)], random)
        error = with_bias_nodes(pair)
        without = (pair.on_self_loops(), pair.on_nodes())
        seen_apart = [differs(encoded, pair.neuron) for encoded in without]
        told_apart = [reacts(encoded, pair.neuron, seed + number) for encoded in without]
        if any(seen_apart) or any(told_apart) or not differs(pair.with_nodes(), pair.bias_node):
            error = float("inf")
        yield Trial("mlp", 2, error)


@dataclass(frozen=True, eq=False)
class Encoded:
    """Both networks of a pair as one batch, and the first node states."""

    batch: Batch
    nodes: Tensor


@dataclass(frozen=True, eq=False)
class Pair:
    """Two MLPs that differ only in the bias of the second hidden neuron."""

    graph: ParameterGraph
    first: dict[str, Tensor]
    second: dict[str, Tensor]

    @staticmethod
    def random(widths: list[int], random: Random) -> Pair:
        model = random_mlp(widths, random)
        first = model.state_dict()
        second = first | {BIAS: first[BIAS].clone()}
        second[BIAS][1] += 1
        return Pair(trace(model, torch.zeros(1, widths[0]).double()), first, second)

    @property
    def neuron(self) -> int:
        """The first hidden neuron."""
        return next(group.start for group in self.graph.groups if group.kind == "neuron")

    @property
    def bias_node(self) -> int:
        return next(group.start for group in self.graph.groups if group.kind == "linear bias")

    def with_nodes(self) -> Encoded:
        return self._encoded(self.graph, first_states(self.graph))

    def on_self_loops(self) -> Encoded:
        """Put each bias on an edge from its neuron to itself."""
        blocks = tuple(
            replace(block, source=block.target) if block.kind == "linear bias" else block
            for block in self.graph.blocks
        )
        graph = replace(self.graph, blocks=blocks)
        return self._encoded(graph, first_states(graph))

    def on_nodes(self) -> Encoded:
        """Add each bias to the state of its neuron as a feature."""
        biases = [block for block in self.graph.blocks if block.kind == "linear bias"]
        graph = replace(
            self.graph,
            blocks=tuple(block for block in self.graph.blocks if block not in biases),
            parameters=tuple(p for p in self.graph.parameters if not p.name.endswith("bias")),
        )
        nodes = []
        for weights in (self.first, self.second):
            feature = torch.zeros(graph.num_nodes, dtype=torch.float64)
            for block in biases:
                feature[block.target] = weights[block.parameter or ""]
            nodes.append(first_states(graph) + feature[:, None])
        return self._encoded(graph, torch.cat(nodes))

    def _encoded(self, graph: ParameterGraph, nodes: Tensor) -> Encoded:
        names = [parameter.name for parameter in graph.parameters]
        both = [{name: weights[name] for name in names} for weights in (self.first, self.second)]
        batch = collate([(graph, weights) for weights in both])
        return Encoded(batch, nodes.repeat(batch.num_nodes // len(nodes), 1))


@torch.no_grad()
def first_states(graph: ParameterGraph) -> Tensor:
    """Encode kind, depth, activation, degree and index of nodes as the library does. [N, HIDDEN]"""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return NodeEncoder(HIDDEN, Vocabulary()).double().encode(graph, graph.name)


# ------------------------------------------------------------------ with bias nodes


def as_metanetwork() -> GraphMetanetwork:
    """Build one layer: biases are sent to their node, and their sum back to the edges."""

    def message(to: Tensor, fro: Tensor, edges: Tensor, along: bool, context: Tensor | None) -> Tensor:
        return edges[:, [VALUE]] * edges[:, [IS_BIAS]] * (not along)

    def update(source: Tensor, target: Tensor, edges: Tensor, context: Tensor | None) -> Tensor:
        return torch.where(edges[:, [IS_BIAS]].bool(), FACTOR * source, edges[:, [VALUE]])

    blocks = [NodeUpdate(message, lambda nodes, messages, context: messages), EdgeUpdate(update)]
    return by_hand(blocks, EdgeStates(), level="edge")


def with_bias_nodes(pair: Pair) -> float:
    """Return how far the layer is from a multiple of the sum of biases, on every bias of both networks."""
    batch = collate([(pair.graph, pair.first), (pair.graph, pair.second)])
    errors = []
    for weights, found in zip(
        (pair.first, pair.second), batch.state_dicts(as_metanetwork()(batch)), strict=True
    ):
        for name, value in weights.items():
            expected = FACTOR * value.sum().expand_as(value) if name.endswith("bias") else value
            errors.append(float((found[name] - expected).abs().max()))
    return max(errors)


# ------------------------------------------------------------------ without bias nodes


def differs(encoded: Encoded, node: int) -> bool:
    """Return whether a node sees something different in the two networks within one layer.

    A layer's result at a node and on its self-loop is a function of this view, whatever functions are in it.
    """
    links = Links(encoded.batch)
    size = encoded.batch.num_nodes // 2
    first, second = (view(encoded.nodes, links, number) for number in (node, size + node))
    return not torch.equal(first, second)


def view(nodes: Tensor, links: Links, node: int) -> Tensor:
    """Return everything that a layer's messages and updates at a node are computed from, in a fixed order.

    First its own state; then a row for each edge into or out of it: direction, the other end's state, the
    weight, the kind.
    """
    kinds = torch.tensor(links.panel.kinds(Vocabulary(), links.batch))[links.panel.use]
    edges = torch.cat([links.panel.values, kinds[:, None].double()], dim=1)
    rows = []
    for along, (fro, to) in ((1.0, (links.source, links.target)), (0.0, (links.target, links.source))):
        own = (to == node).nonzero()[:, 0]
        direction = torch.full((len(own), 1), along, dtype=torch.float64)
        rows.append(torch.cat([direction, nodes[fro[own]], edges[own]], dim=1))
    seen = torch.tensor(sorted(torch.cat(rows).tolist()), dtype=torch.float64)
    return torch.cat([nodes[node], seen.flatten()])


@torch.no_grad()
def reacts(encoded: Encoded, node: int, seed: int) -> bool:
    """Return whether a layer with random weights distinguishes the two networks at the node or its loop."""
    links, size = Links(encoded.batch), encoded.batch.num_nodes // 2
    loops = ((links.source == links.target) & (links.source % size == node)).nonzero()[:, 0]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        encoder = EdgeEncoder(HIDDEN, Vocabulary()).double()
        layers = [MessagePassing(HIDDEN, aggregation=aggregation).double() for aggregation in AGGREGATIONS]
    edges = encoder.states(encoder.terms(links.panel, encoded.batch), encoder.weights())
    for layer in layers:
        after = layer(State(encoded.nodes, edges), links)
        here = torch.stack([after.nodes[node], after.nodes[size + node]])
        if not torch.equal(here[0], here[1]) or (len(loops) and not torch.equal(*after.edges[loops])):
            return True
    return False
