"""The data that flows through a metanetwork: states of nodes, edges and networks, and their structure."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from graph_metanetworks.graph.batch import Batch
from graph_metanetworks.graph.parameter_graph import ParameterGraph
from graph_metanetworks.nn.engine.panel import Panel, arrange


class State(NamedTuple):
    """Hidden states of a batch; `edges` are in the order of `links`."""

    nodes: Tensor  # [N, hidden]
    edges: Tensor  # [E, hidden]
    globals: Tensor | None = None  # [B, hidden]


@dataclass(frozen=True, eq=False)
class Links:
    """The structure of a batch as an explicit list of edges, for blocks that need one."""

    batch: Batch
    outputs: Tensor | None = None  # [B, k] what its networks make of probes, for the readout

    @cached_property
    def panel(self) -> Panel:
        """All edges in one list, made on first use."""
        (panel,) = arrange(self.batch, list_below=self.batch.num_edges + 1)
        return panel

    @property
    def source(self) -> Tensor:  # [E]
        return self.panel.source

    @property
    def target(self) -> Tensor:  # [E]
        return self.panel.target

    @cached_property
    def edge_index(self) -> Tensor:  # [2, E]
        return torch.stack([self.source, self.target])

    @cached_property
    def node_network(self) -> Tensor:
        """The network of each node. [N]"""
        return node_network(self.batch)

    @cached_property
    def edge_network(self) -> Tensor:
        """The network of each edge. [E]"""
        return self.node_network[self.source]


def node_network(batch: Batch) -> Tensor:
    """Return the network of each node of a batch. [N]"""
    sizes = torch.tensor([graph.num_nodes for graph in batch.graphs], device=batch.device)
    return torch.arange(len(batch), device=batch.device).repeat_interleave(sizes)


_DEGREES: WeakKeyDictionary[ParameterGraph, Tensor] = WeakKeyDictionary()


def degrees(batch: Batch) -> Tensor:
    """Return the number of edges into and out of each node. [N, 2]"""
    return torch.cat([graph_degrees(graph) for graph in batch.graphs]).to(batch.device)


def graph_degrees(graph: ParameterGraph) -> Tensor:
    """Return the degrees of one graph, cached."""
    if graph not in _DEGREES:
        counts = torch.zeros(graph.num_nodes, 2, dtype=torch.int64)
        for block in graph.blocks:
            for column, end in enumerate((block.target, block.source)):
                times = torch.full((end.numel(),), block.num_edges // max(1, end.numel()))
                counts[:, column].index_add_(0, end.reshape(-1), times)
        _DEGREES[graph] = counts
    return _DEGREES[graph]
