"""`MessagePassing` as plain PyG: `MetaLayer` over an explicit list of edges. The engine must equal it."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn
from torch_geometric.nn import MetaLayer
from torch_geometric.utils import scatter

from graph_metanetworks.nn.message_passing import MessagePassing
from graph_metanetworks.nn.state import Links, State, degrees


def over_edge_list(block: MessagePassing, state: State, links: Links) -> State:
    """All states after a block."""
    nodes, edges, features = state
    first = MetaLayer(
        None, _NodeModel(block, links), _GlobalModel(block, links) if block.global_update else None
    )
    normed = block.edge_norm(edges)
    network = links.node_network
    nodes, _, features = first(nodes, links.edge_index, normed, features, network)
    if block.edge_update is not None and block.edge_node_norm is not None:
        second = MetaLayer(_EdgeModel(block))
        _, change, _ = second(block.edge_node_norm(nodes), links.edge_index, normed, features, network)
        edges = edges + change
    return State(nodes, edges, features)


class _NodeModel(nn.Module):
    def __init__(self, block: MessagePassing, links: Links) -> None:
        super().__init__()
        self.block, self.links = block, links

    def forward(self, nodes, edge_index, edges, features, network):
        block, (source, target) = self.block, edge_index
        normed = block.node_norm(nodes)
        messages, receivers = [], []
        for direction, (sender, receiver) in enumerate([(source, target), (target, source)]):
            parts = [normed[receiver], normed[sender], edges]
            if block.two_way:
                mark = F.one_hot(torch.tensor(direction, device=edges.device), 2).to(edges.dtype)
                parts.append(mark.expand(len(edges), 2))
            if features is not None:
                parts.append(features[network[receiver]])
            if direction == 0 or block.two_way:
                inner = block.message.first(torch.cat(parts, dim=1)).relu()
                messages.append(inner if block.aggregation == "max" else block.message.second(inner))
                receivers.append(receiver)
        reduce = "max" if block.aggregation == "max" else "sum"
        sums = scatter(torch.cat(messages), torch.cat(receivers), 0, len(nodes), reduce)
        mean = block.aggregated(sums, degrees(self.links.batch))
        mean = block.message.second(mean) if block.aggregation == "max" else mean
        context = [] if features is None else [features[network]]
        return nodes + block.node_update(torch.cat([normed, mean, *context], dim=1))


class _GlobalModel(nn.Module):
    def __init__(self, block: MessagePassing, links: Links) -> None:
        super().__init__()
        self.block, self.links = block, links

    def forward(self, nodes, edge_index, edges, features, network):
        size = len(features)
        node_mean = scatter(nodes, network, 0, size, "mean")
        edge_mean = scatter(edges, self.links.edge_network, 0, size, "mean")
        return self.block.updated_globals(features, node_mean, edge_mean)


class _EdgeModel(nn.Module):
    def __init__(self, block: MessagePassing) -> None:
        super().__init__()
        self.block = block

    def forward(self, sources, targets, edges, features, network):
        parts = [sources, targets, edges] + ([] if features is None else [features[network]])
        assert self.block.edge_update is not None
        return self.block.edge_update(torch.cat(parts, dim=1))
