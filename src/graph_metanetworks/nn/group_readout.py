"""A readout by node group, for architectures that were never seen in training."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from graph_metanetworks.graph.batch import Batch
from graph_metanetworks.graph.parameter_graph import ParameterGraph
from graph_metanetworks.graph.parts import NodeGroup
from graph_metanetworks.nn.encoders import NUM_FREQUENCIES, sinusoids
from graph_metanetworks.nn.mlp import Mlp
from graph_metanetworks.nn.readouts import Readout
from graph_metanetworks.nn.state import Links, State
from graph_metanetworks.nn.vocabulary import Vocabulary

LARGEST = 30.0  # mean squares above it look alike


class MeanByGroup(Readout):
    """Mean, deviation and mean square of each node group, an MLP that is told its kind and depth, then a sum.

    All groups count equally, however many neurons they have. A group is identified by its kind and by its
    depth from the input and from the output, not by a name, so any architecture is accepted. Nodes of biases
    and norms are left out, because the neurons they belong to know them.

    Args:
        inner: width of the terms that are summed.
    """

    reads_edges = False

    def __init__(
        self, hidden: int, out: int, *, inner: int = 64, vocabulary: Vocabulary | None = None
    ) -> None:
        super().__init__()
        self.vocabulary = vocabulary or Vocabulary()
        self.norm = nn.LayerNorm(hidden)
        self.kind = nn.Embedding(len(self.vocabulary.node_kinds), hidden)
        self.depth = nn.Linear(4 * NUM_FREQUENCIES, hidden, bias=False)
        self.mix = Mlp(4 * hidden, inner, inner)
        self.head = Mlp(inner, inner, out)

    def forward(self, state: State, links: Links) -> Tensor:  # [B, out]
        return self.head(self.pooled(state, links.batch))

    def pooled(self, state: State, batch: Batch) -> Tensor:
        """Return the representation of each network, before the last MLP. [B, inner]"""
        nodes = self.norm(state.nodes)
        groups = [read_groups(graph) for graph in batch.graphs]
        numbers, start, rest = [], 0, sum(map(len, groups))  # the last number: nodes that are left out
        for graph, kept in zip(batch.graphs, groups, strict=True):
            own = torch.full((graph.num_nodes,), rest)
            for group in kept:
                own[group.nodes] = start
                start += 1
            numbers.append(own)
        index = torch.cat(numbers).to(nodes.device)
        sizes = torch.tensor([group.size for kept in groups for group in kept]).to(nodes)[:, None]
        sums = nodes.new_zeros(rest + 1, 2 * nodes.shape[1])
        sums = sums.index_add(0, index, torch.cat([nodes, nodes * nodes], dim=1))[:-1]
        mean, square = (sums / sizes).chunk(2, dim=1)
        deviation = (square - mean * mean).clamp(min=0).add(1e-4).sqrt()
        labels = torch.cat([self._labels(graph, batch.names[i]) for i, graph in enumerate(batch.graphs)])
        terms = self.mix(torch.cat([mean, deviation, square.clamp(max=LARGEST), labels], dim=1)).relu()
        parts = terms.split([len(kept) for kept in groups])
        return torch.stack([part.sum(0) / len(part) ** 0.5 for part in parts])

    def _labels(self, graph: ParameterGraph, name: str) -> Tensor:
        """Return what a group is: its kind, and its depth from both ends. [groups, hidden]"""
        groups, weight = read_groups(graph), self.kind.weight
        kinds = self.vocabulary.rows("node_kinds", [group.kind for group in groups], name)
        depth = torch.tensor([float(group.depth) for group in groups])
        waves = torch.cat([sinusoids(depth), sinusoids(float(depth.max()) - depth)], dim=1).to(weight)
        return self.kind(torch.tensor(kinds, device=weight.device)) + self.depth(waves)


def read_groups(graph: ParameterGraph) -> list[NodeGroup]:
    """Return the groups of neurons: all but the nodes that biases and norms come from."""
    single = graph.block_ends.parameter_nodes
    return [group for group in graph.groups if group not in single] or list(graph.groups)
