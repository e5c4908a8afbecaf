"""Convolutions of PyTorch Geometric as blocks."""

from __future__ import annotations

from inspect import signature

import torch
from torch import nn

from graph_metanetworks.nn.mlp import Mlp
from graph_metanetworks.nn.state import Links, State


class PygBlock(nn.Module):
    r"""A block around any PyG layer that takes edge features: `conv(x, edge_index, edge_attr=...)`.

    .. math::
        v &\gets v + \mathrm{conv}(v, e) \\
        e_{ij} &\gets e_{ij} + \mathrm{MLP}(v_i, v_j, e_{ij})

    >>> from torch_geometric.nn import GATv2Conv
    >>> import graph_metanetworks as gmn
    >>> conv = GATv2Conv(32, 8, heads=4, edge_dim=32, add_self_loops=False)
    >>> net = gmn.GraphMetanetwork(hidden=32, blocks=[gmn.nn.PygBlock(conv, 32)])

    The layer receives each edge in both directions, distinguished by a learned vector that is added to its
    state. Layers that take `batch` (`GPSConv`) receive the network of each node. Choose `norm="layer_norm"`:
    batch norm mixes the networks of a batch. Choose `add_self_loops=False`: PyG would replace the self-loops
    of recurrent weights.

    Args:
        conv: layer on node states and edge states of width `hidden`.
        hidden: width of states.
        updates_edges: False for a last block if the readout reads nodes only.
    """

    def __init__(self, conv: nn.Module, hidden: int, *, updates_edges: bool = True) -> None:
        super().__init__()
        self.conv = conv
        self.takes_batch = "batch" in signature(conv.forward).parameters
        self.node_norm = nn.LayerNorm(hidden)
        self.edge_norm = nn.LayerNorm(hidden)
        self.directions = nn.Parameter(torch.randn(2, hidden))
        self.end_norm = nn.LayerNorm(hidden) if updates_edges else None
        self.edge_update = Mlp(3 * hidden, hidden, hidden) if updates_edges else None

    def forward(self, state: State, links: Links) -> State:
        nodes, edges, features = state
        normed = self.edge_norm(edges)
        both = torch.cat([normed + direction for direction in self.directions])
        index = torch.cat([links.edge_index, links.edge_index.flip(0)], dim=1)
        options = {"batch": links.node_network} if self.takes_batch else {}
        nodes = nodes + self.conv(self.node_norm(nodes), index, edge_attr=both, **options)
        if self.edge_update is not None and self.end_norm is not None:
            ends = self.end_norm(nodes)
            parts = [ends[links.source], ends[links.target], normed]
            edges = edges + self.edge_update(torch.cat(parts, dim=1))
        return State(nodes, edges, features)
