"""Features and readouts of the proofs in appendix C, in place of learned ones."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from graph_metanetworks.graph.batch import Batch
from graph_metanetworks.nn.encoders import EdgeEncoder
from graph_metanetworks.nn.engine.panel import Panel
from graph_metanetworks.nn.metanetwork import GraphMetanetwork
from graph_metanetworks.nn.readouts import Readout
from graph_metanetworks.nn.state import Links, State
from graph_metanetworks.nn.vocabulary import Vocabulary

VALUE, LAYER, IS_BIAS = 0, 1, 2  # columns of edge states


class WeightLayerKind(EdgeEncoder):
    """On each edge: its weight, its layer counted from 1, and whether it is a bias. [E, 3]"""

    def __init__(self) -> None:
        super().__init__(1, Vocabulary())

    def terms(self, panel: Panel, batch: Batch) -> list[Tensor]:
        depth = torch.cat([graph.node_depth for graph in batch.graphs])
        kinds = [batch.graphs[network].blocks[block].kind for network, block in panel.uses]
        is_bias = torch.tensor([kind.endswith("bias") for kind in kinds])[panel.use]
        return [panel.values, depth[panel.target][..., None], is_bias[..., None]]

    def states(self, terms: list[Tensor], weights: list[Tensor]) -> Tensor:
        return torch.cat([term.to(terms[0].dtype) for term in terms], dim=-1)


class NoNodeFeatures(nn.Module):
    """Nodes that start as zeros. [N, 1]"""

    def forward(self, batch: Batch) -> Tensor:
        return torch.zeros(batch.num_nodes, 1, dtype=batch.dtype)


class EdgeStates(Readout):
    """The last states of edges. [E, k]"""

    def forward(self, state: State, links: Links) -> Tensor:
        return state.edges


class NodeStates(Readout):
    """The last states of nodes. [N, k]"""

    def forward(self, state: State, links: Links) -> Tensor:
        return state.nodes


class GlobalState(Readout):
    """A function of the last global feature. [B, k]"""

    def __init__(self, function: nn.Module) -> None:
        super().__init__()
        self.function = function

    def forward(self, state: State, links: Links) -> Tensor:
        assert state.globals is not None
        return self.function(state.globals)


def by_hand(
    blocks: Sequence[nn.Module],
    readout: Readout,
    *,
    level: str,
    node_encoder: nn.Module | None = None,
    global_width: int = 0,
) -> GraphMetanetwork:
    """Build a metanetwork in float64 from given parts; its global feature starts as zeros."""
    return GraphMetanetwork(
        hidden=max(global_width, 1),
        level=level,  # pyright: ignore[reportArgumentType]
        blocks=blocks,
        readout=readout,
        node_encoder=node_encoder or NoNodeFeatures(),
        edge_encoder=WeightLayerKind(),
        global_feature=global_width > 0,
    ).double()
