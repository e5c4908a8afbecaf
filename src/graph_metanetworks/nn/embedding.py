"""Embeddings: the representation of a network before the last layer of a model."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from graph_metanetworks.graph.batch import Batch
from graph_metanetworks.nn.readouts import EachEdge, PooledEdges


def input_of(layer: nn.Module, model: Callable[[Batch], object], batch: Batch) -> Tensor:
    """Run a model on a batch, and return what one of its layers was given."""
    seen: list[Tensor] = []
    handle = layer.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    try:
        model(batch)
    finally:
        handle.remove()
    return seen[-1]


def node_means(nodes: Tensor, batch: Batch) -> Tensor:
    """Average over the nodes of each network. [N, k] -> [B, k]"""
    return torch.stack([own.mean(0) for own in batch.split_nodes(nodes)])


class MeanStates(PooledEdges):
    """The mean of the edge states that a readout of each edge applies its last layer to. [B, hidden]"""

    def __init__(self, readout: EachEdge) -> None:
        super().__init__()
        self.readout = readout

    def finish(self, pooled: Tensor, batch: Batch) -> Tensor:
        counts = torch.tensor([graph.num_edges for graph in batch.graphs], device=pooled.device)
        return self.readout.norm.weight * pooled / counts[:, None]
