"""The three updates of the paper's section 2.3 as separate blocks, with functions of your choice.

`MessagePassing` combines the three with MLPs, norms and residuals, and is optimized for speed. Here every
function is free, and so is the order of the updates: compose them as blocks.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from graph_metanetworks.nn.scatter import Reduction, scatter
from graph_metanetworks.nn.state import Links, State

# All tensors have a row for each node, edge or network. The context is the global feature of its network.
# receivers, senders, edges, whether messages go along the edges, context:
Message = Callable[[Tensor, Tensor, Tensor, bool, Tensor | None], Tensor]
NodeFunction = Callable[[Tensor, Tensor, Tensor | None], Tensor]  # nodes, messages, context
EdgeFunction = Callable[[Tensor, Tensor, Tensor, Tensor | None], Tensor]  # sources, targets, edges, context
GlobalFunction = Callable[[Tensor, Tensor, Tensor], Tensor]  # globals, pooled nodes, pooled edges
Part = Callable[[Tensor, Tensor], Tensor]  # nodes or edges, context


class NodeUpdate(nn.Module):
    r"""New node states: :math:`v_i \gets f(v_i, \sum_j m(v_i, v_j, e_{ij}, u), u)`.

    >>> import torch, graph_metanetworks as gmn
    >>> sums = NodeUpdate(lambda to, fro, edges, along, u: edges, lambda nodes, messages, u: messages)

    Args:
        message: function of receivers, senders, edges, whether the message goes along the edge, and context.
        update: function of nodes, their aggregated messages and the context.
        aggregation: "sum", "mean" or "max".
        two_way: also send messages against the edges.
    """

    def __init__(
        self,
        message: Message,
        update: NodeFunction,
        *,
        aggregation: Reduction = "sum",
        two_way: bool = True,
    ) -> None:
        super().__init__()
        self.message, self.update = message, update
        self.aggregation: Reduction = aggregation
        self.two_way = two_way

    def forward(self, state: State, links: Links) -> State:
        nodes, edges, _ = state
        context = _context(state, links.edge_network)
        messages = [self.message(nodes[links.target], nodes[links.source], edges, True, context)]
        receivers = [links.target]
        if self.two_way:
            messages.append(self.message(nodes[links.source], nodes[links.target], edges, False, context))
            receivers.append(links.source)
        received = scatter(torch.cat(messages), torch.cat(receivers), len(nodes), self.aggregation)
        return state._replace(nodes=self.update(nodes, received, _context(state, links.node_network)))


class EdgeUpdate(nn.Module):
    r"""New edge states: :math:`e_{ij} \gets f(v_j, v_i, e_{ij}, u)`, for an edge from `j` to `i`."""

    def __init__(self, update: EdgeFunction) -> None:
        super().__init__()
        self.update = update

    def forward(self, state: State, links: Links) -> State:
        nodes, edges, _ = state
        context = _context(state, links.edge_network)
        return state._replace(edges=self.update(nodes[links.source], nodes[links.target], edges, context))


class GlobalUpdate(nn.Module):
    r"""A new global feature: :math:`u \gets f(u, \sum_i g(v_i, u), \sum_{ij} h(e_{ij}, u))`.

    Args:
        update: function of the global feature, pooled nodes and pooled edges.
        of_nodes, of_edges: functions applied before pooling; the identity by default.
        aggregation: "sum" or "mean".
    """

    def __init__(
        self,
        update: GlobalFunction,
        *,
        of_nodes: Part | None = None,
        of_edges: Part | None = None,
        aggregation: Reduction = "sum",
    ) -> None:
        super().__init__()
        self.update, self.of_nodes, self.of_edges = update, of_nodes, of_edges
        self.aggregation: Reduction = aggregation

    def forward(self, state: State, links: Links) -> State:
        if state.globals is None:
            raise ValueError(
                "there is no global feature to update. Make the metanetwork with global_feature=True."
            )
        pooled = []
        for rows, network, part in (
            (state.nodes, links.node_network, self.of_nodes),
            (state.edges, links.edge_network, self.of_edges),
        ):
            rows = rows if part is None else part(rows, state.globals[network])
            pooled.append(scatter(rows, network, len(state.globals), self.aggregation))
        return state._replace(globals=self.update(state.globals, *pooled))


def _context(state: State, network: Tensor) -> Tensor | None:
    return None if state.globals is None else state.globals[network]
