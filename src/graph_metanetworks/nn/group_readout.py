"""A readout by node group, for architectures that were never seen in training."""

from __future__ import annotations

from typing import NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from graph_metanetworks.graph.batch import Batch
from graph_metanetworks.graph.parameter_graph import ParameterGraph
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

    def add_outputs(self, width: int) -> None:
        inner, out = self.head.first.out_features, self.head.second.out_features
        self.head = Mlp(inner + width, inner, out)

    def forward(self, state: State, links: Links) -> Tensor:  # [B, out]
        pooled = self.pooled(state, links.batch)
        return self.head(pooled if links.outputs is None else torch.cat([pooled, links.outputs], dim=1))

    def pooled(self, state: State, batch: Batch) -> Tensor:
        """Return the representation of each network by its node groups, before the last MLP. [B, inner]"""
        groups = _groups(batch, self.vocabulary)
        device, width = state.nodes.device, state.nodes.shape[1]
        read = self.norm(state.nodes.index_select(0, groups.node.to(device)))
        sums = read.new_zeros(len(groups.size), 2 * width)
        sums = sums.index_add(0, groups.group.to(device), torch.cat([read, read * read], dim=1))
        mean, square = (sums / groups.size.to(read)[:, None]).chunk(2, dim=1)
        deviation = (square - mean * mean).clamp(min=0).add(1e-4).sqrt()
        label = self.kind(groups.kind.to(device)) + self.depth(groups.depth.to(read))
        terms = self.mix(torch.cat([mean, deviation, square.clamp(max=LARGEST), label], dim=1)).relu()
        terms = terms * groups.share.to(read)[:, None]
        return read.new_zeros(len(batch), terms.shape[1]).index_add(0, groups.network.to(device), terms)


class GroupFeatures(NamedTuple):
    """What a readout knows of the node groups of a graph. Nodes of biases and norms are left out."""

    node: Tensor  # [n] the nodes that are read
    group: Tensor  # [n] the group of each
    size: Tensor  # [groups]
    kind: Tensor  # [groups] rows of a vocabulary
    depth: Tensor  # [groups, 4 NUM_FREQUENCIES] from the input, and from the output


_GROUPS: WeakKeyDictionary[ParameterGraph, tuple[Vocabulary, GroupFeatures]] = WeakKeyDictionary()


class _Groups(NamedTuple):
    """The node groups of all networks of a batch, stack by stack."""

    node: Tensor  # [n] nodes of the batch
    group: Tensor  # [n] the group of each
    size: Tensor  # [groups]
    kind: Tensor  # [groups]
    depth: Tensor  # [groups, 4 NUM_FREQUENCIES]
    network: Tensor  # [groups]
    share: Tensor  # [groups] 1 / sqrt(groups of its network)


def _groups(batch: Batch, vocabulary: Vocabulary) -> _Groups:
    parts, first = [], 0
    for stack in batch.stacks:
        count = len(stack.members)
        own = group_features(stack.graph, vocabulary, batch.names[stack.members[0]])
        starts = torch.tensor([batch.node_starts[member] for member in stack.members])[:, None]
        groups = len(own.size)
        parts.append(
            _Groups(
                (own.node + starts).flatten(),
                (own.group + torch.arange(first, first + count * groups, groups)[:, None]).flatten(),
                own.size.repeat(count),
                own.kind.repeat(count),
                own.depth.repeat(count, 1),
                torch.tensor(stack.members).repeat_interleave(groups),
                torch.full((count * groups,), groups**-0.5),
            )
        )
        first += count * groups
    return _Groups(*(torch.cat(part) for part in zip(*parts, strict=True)))


def group_features(graph: ParameterGraph, vocabulary: Vocabulary, name: str) -> GroupFeatures:
    """Return the features of one graph's node groups, cached. `name` is what errors call the network."""
    if graph not in _GROUPS or _GROUPS[graph][0] is not vocabulary:
        single = graph.block_ends.parameter_nodes
        groups = [group for group in graph.groups if group not in single] or list(graph.groups)
        sizes = torch.tensor([group.size for group in groups])
        depth = torch.tensor([float(group.depth) for group in groups])
        features = GroupFeatures(
            torch.cat([torch.arange(graph.num_nodes)[group.nodes] for group in groups]),
            torch.arange(len(groups)).repeat_interleave(sizes),
            sizes,
            torch.tensor(vocabulary.rows("node_kinds", [group.kind for group in groups], name)),
            torch.cat([sinusoids(depth), sinusoids(depth.max() - depth)], dim=1),
        )
        _GROUPS[graph] = vocabulary, features
    return _GROUPS[graph][1]
