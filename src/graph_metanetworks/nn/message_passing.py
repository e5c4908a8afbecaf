"""The paper's block: messages along edges, then updates of nodes, of the global feature and of edges."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from graph_metanetworks.nn.engine.scratch import scratch_buffer
from graph_metanetworks.nn.engine.sweep import CellResult, Terms
from graph_metanetworks.nn.mlp import Mlp, add_product
from graph_metanetworks.nn.norm import RmsNorm, normed
from graph_metanetworks.nn.scatter import scatter
from graph_metanetworks.nn.state import Links, State, degrees

Aggregation = Literal["mean", "sum", "max", "fan"]
AGGREGATIONS = ("mean", "sum", "max", "fan")
EDGE_GAIN = 0.1  # initial edge updates are small: larger random ones would hide the weights from a readout


class UpdatesEdges(nn.Module):
    r"""Update edges from both ends: :math:`e_{ij} \gets e_{ij} + \mathrm{MLP}^e(v_i, v_j, e_{ij}, u)`.

    Args:
        hidden: width of states.
        inner: width inside the MLP.
        context: width of the global feature; 0 for none.
        gain: initial size of updates.
    """

    edge_node_norm: nn.LayerNorm | None
    edge_update: Mlp | None

    def __init__(self, hidden: int, inner: int, *, context: int = 0, gain: float = EDGE_GAIN) -> None:
        super().__init__()
        self.hidden = hidden
        self.edge_norm = RmsNorm(hidden)
        self.edge_node_norm = nn.LayerNorm(hidden)
        # A bias at the end of an edge update would cost as much as all other sums.
        self.edge_update = Mlp(3 * hidden + context, inner, hidden, bias=False, gain=gain)

    def edge_terms(self, nodes: Tensor, context: Tensor | None) -> Terms:
        """Return the terms of nodes in edge updates."""
        assert self.edge_update is not None and self.edge_node_norm is not None
        nodes = self.edge_node_norm(nodes)
        first = self.edge_update.first
        hidden = self.hidden
        target = F.linear(nodes, first.weight[:, hidden : 2 * hidden], first.bias)
        if context is not None:
            target = target + F.linear(context, first.weight[:, -hidden:])
        return Terms(source=F.linear(nodes, first.weight[:, :hidden]), target=target)

    def edge_weights(self) -> list[Tensor]:
        assert self.edge_update is not None
        first, second = self.edge_update.first, self.edge_update.second
        on_edges = first.weight[:, 2 * self.hidden : 3 * self.hidden]
        return [on_edges * self.edge_norm.weight, second.weight]

    def updated(self, edges: Tensor, ends: Terms, weights: list[Tensor], out: Tensor | None = None) -> Tensor:
        """Return updated edge states; `out` may be `edges` itself."""
        first, second = weights
        inner = pre_activation(normed(edges), ends, first).relu_()
        return add_product(edges, inner, second, out=out)

    def edges_over_list(self, state: State, normed_edges: Tensor, links: Links) -> Tensor:
        """Update edges on an explicit list: the reference that the engine must equal."""
        assert self.edge_update is not None and self.edge_node_norm is not None
        ends, features = self.edge_node_norm(state.nodes), state.globals
        parts = [ends[links.source], ends[links.target], normed_edges]
        parts += [] if features is None else [features[links.edge_network]]
        return state.edges + self.edge_update(torch.cat(parts, dim=1))


class MessagePassing(UpdatesEdges):
    r"""One layer of a graph metanetwork (section 2.3 of the paper), residual and with pre-norm.

    .. math::
        v_i &\gets v_i + \mathrm{MLP}_2(v_i, \mathrm{mean}_j \mathrm{MLP}_1(v_i, v_j, e_{ij}, u), u) \\
        u &\gets u + \mathrm{MLP}^u(u, \mathrm{mean}_i v_i, \mathrm{mean}_{ij} e_{ij}) \\
        e_{ij} &\gets e_{ij} + \mathrm{MLP}^e(v_i, v_j, e_{ij}, u)

    Two-way messages go along edges and against them, distinguished by a feature. An edge has one state.

    Args:
        hidden: width of the states of nodes, edges and the global feature.
        inner: width inside each MLP; `hidden` by default.
        aggregation: "mean", "sum", "max" or "fan" (sum divided by the square root of the degree).
        two_way: also send messages against the edges.
        global_feature: keep a state per network, used by all updates.
        updates_edges: False for a last block if the readout reads nodes only; the global feature is then not
            updated either.
    """

    def __init__(
        self,
        hidden: int,
        inner: int | None = None,
        *,
        aggregation: Aggregation = "mean",
        two_way: bool = True,
        global_feature: bool = False,
        updates_edges: bool = True,
    ) -> None:
        if aggregation not in AGGREGATIONS:
            raise ValueError(f"aggregation={aggregation!r} is none of {', '.join(AGGREGATIONS)}")
        inner, extra = inner or hidden, hidden if global_feature else 0
        super().__init__(hidden, inner, context=extra)
        self.aggregation, self.two_way = aggregation, two_way
        self.node_norm = nn.LayerNorm(hidden)
        directions = 2 if two_way else 0
        # Without a bias, the second layer of messages may be applied before or after the mean.
        self.message = Mlp(3 * hidden + directions + extra, inner, hidden, bias=False)
        self.node_update = Mlp(2 * hidden + extra, inner, hidden)
        self.global_update = Mlp(3 * hidden, inner, hidden) if global_feature and updates_edges else None
        if not updates_edges:
            self.edge_node_norm = self.edge_update = None

    # -------------------------------------------------------------- edges, for the engine

    def message_terms(self, nodes: Tensor, context: Tensor | None) -> Terms:
        """Return the terms of nodes in messages; `context` is the global feature of each node."""
        nodes = self.node_norm(nodes)
        first = self.message.first
        hidden = self.hidden
        receiver = F.linear(nodes, first.weight[:, :hidden], first.bias)
        if context is not None:
            receiver = receiver + F.linear(context, first.weight[:, -hidden:])
        sender = F.linear(nodes, first.weight[:, hidden : 2 * hidden])
        if not self.two_way:
            return Terms(source=sender, target=receiver)
        along, against = first.weight[:, 3 * hidden : 3 * hidden + 2].unbind(1)
        # the terms of a message along the edge, and what to add for the reverse message
        forward, reverse = receiver + along, receiver + against
        return Terms(
            source=torch.cat([sender, reverse - sender], 1), target=torch.cat([forward, sender - forward], 1)
        )

    def message_weights(self) -> list[Tensor]:
        on_edges = self.message.first.weight[:, 2 * self.hidden : 3 * self.hidden]
        return [on_edges * self.edge_norm.weight]

    def messages(self, edges: Tensor, ends: Terms, weights: list[Tensor]) -> CellResult:
        """Return messages to each edge's target and, if two-way, source, before their last linear layer."""
        states = normed(edges)
        pooled = states if self.global_update is not None else None
        if not self.two_way:
            return CellResult(to_target=pre_activation(states, ends, weights[0]).relu_(), pooled=pooled)
        (source, reverse_source), (target, reverse_target) = (end.chunk(2, -1) for end in ends)
        along = pre_activation(states, Terms(source, target), weights[0])
        out = scratch_buffer("against", along, along.shape[-1])
        against = torch.add(along, reverse_source, out=out).add_(reverse_target)
        return CellResult(to_target=along.relu_(), to_source=against.relu_(), pooled=pooled)

    # -------------------------------------------------------------- nodes and the global feature

    def updated_nodes(self, nodes: Tensor, messages: Tensor, context: Tensor | None) -> Tensor:
        """Return updated node states from aggregated messages `[N, inner]`."""
        parts = [self.node_norm(nodes), self.message.second(messages)]
        return nodes + self.node_update(torch.cat(parts if context is None else [*parts, context], dim=1))

    def aggregated(self, messages: Tensor, degree: Tensor) -> Tensor:
        """Aggregate: divide sums of messages by in- and out-degrees `[N, 2]`; maxima stay as they are."""
        count = (degree.sum(1) if self.two_way else degree[:, 0]).clamp(min=1)[:, None].to(messages.dtype)
        if self.aggregation == "mean":
            return messages / count
        return messages / count.sqrt() if self.aggregation == "fan" else messages

    def updated_globals(self, features: Tensor, node_mean: Tensor, edge_mean: Tensor) -> Tensor:
        assert self.global_update is not None
        return features + self.global_update(torch.cat([features, node_mean, edge_mean], dim=1))

    def forward(self, state: State, links: Links) -> State:
        """Run the block over an explicit list of edges: the reference that the engine must equal."""
        nodes, edges, features = state
        normed_edges = self.edge_norm(edges)
        nodes = self._nodes_over_edge_list(nodes, normed_edges, features, links)
        if features is not None and self.global_update is not None:
            node_mean = scatter(nodes, links.node_network, len(features), "mean")
            edge_mean = scatter(normed_edges, links.edge_network, len(features), "mean")
            features = self.updated_globals(features, node_mean, edge_mean)
        if self.edge_update is not None:
            edges = self.edges_over_list(State(nodes, edges, features), normed_edges, links)
        return State(nodes, edges, features)

    def _nodes_over_edge_list(
        self, nodes: Tensor, edges: Tensor, features: Tensor | None, links: Links
    ) -> Tensor:
        normed_nodes = self.node_norm(nodes)
        ends = [(links.source, links.target), (links.target, links.source)]  # senders, receivers
        inner = []
        for direction, (sender, receiver) in enumerate(ends if self.two_way else ends[:1]):
            parts = [normed_nodes[receiver], normed_nodes[sender], edges]
            if self.two_way:
                parts.append(edges.new_tensor([1 - direction, direction]).expand(len(edges), 2))
            if features is not None:
                parts.append(features[links.edge_network])
            inner.append(self.message.first(torch.cat(parts, dim=1)).relu())
        receivers = torch.cat([links.target, links.source] if self.two_way else [links.target])
        degree, last = degrees(links.batch), self.message.second
        if self.aggregation == "max":
            messages = last(self.aggregated(scatter(torch.cat(inner), receivers, len(nodes), "max"), degree))
        else:
            terms = torch.cat([last(part) for part in inner])
            messages = self.aggregated(scatter(terms, receivers, len(nodes)), degree)
        context = [] if features is None else [features[links.node_network]]
        return nodes + self.node_update(torch.cat([normed_nodes, messages, *context], dim=1))


def pre_activation(states: Tensor, ends: Terms, weight: Tensor) -> Tensor:
    """Apply a linear layer to states and add the terms of both ends. [*piece, inner]"""
    out = scratch_buffer("inner", states, len(weight))
    terms = torch.add(ends.source, ends.target.expand(*states.shape[:-1], -1), out=out)
    return add_product(terms, states, weight, out=out)
