"""The graph transformer GRIT, with attention over the edges of a parameter graph."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from graph_metanetworks.nn.mlp import Mlp
from graph_metanetworks.nn.random_walk import RandomWalkEncoder
from graph_metanetworks.nn.readouts import Readout
from graph_metanetworks.nn.scatter import scatter, scatter_softmax
from graph_metanetworks.nn.state import Links, State, degrees


def signed_root(x: Tensor, smallest: float = 1e-6) -> Tensor:
    """Return the signed square root; near 0 it is linear, so that its slope stays finite."""
    return x * (x.abs() + smallest).rsqrt()


class GritBlock(nn.Module):
    r"""A layer of `GRIT <https://arxiv.org/abs/2305.17589>`_ (Ma et al., ICML 2023), on neighbours only.

    .. math::
        \hat e_{ij} &= \mathrm{ReLU}(\rho((W_Q v_i + W_K v_j) \odot (W_{Ew} e_{ij} + b_w))
            + W_{Eb} e_{ij} + b_b) \\
        v_i &\gets v_i + (W_O \textstyle\sum_j \mathrm{softmax}_j(W_A \hat e_{ij})
            (W_V v_j + W_{Ev} \hat e_{ij})) \odot (\theta_1 + \theta_2 \log(1 + d_i)) \\
        v_i &\gets v_i + \mathrm{MLP}(v_i) \\
        e_{ij} &\gets e_{ij} + W_{Eo} (\hat e_{ij} + \hat e_{ji}) / 2

    with the signed root :math:`\rho`. Where it differs from the paper:

    - Nodes attend to their neighbours, at both ends of edges, instead of to all nodes.
    - The biases :math:`b_w, b_b` are one pair for attention along edges and one for attention against them,
      which distinguishes the two. An edge has one state, updated by the mean of both.
    - LayerNorm before each part instead of BatchNorm after it. A result must not depend on the other networks
      of a batch, and the residual path keeps the degree, which a LayerNorm after the scaler would undo.

    Args:
        hidden: width of states; a multiple of `heads`.
        heads: number of attention heads.
        inner: width inside the MLP; twice `hidden` by default.
        updates_nodes: False for a last block if the readout reads edges only.
        updates_edges: False for a last block if the readout reads nodes only.
    """

    def __init__(
        self,
        hidden: int,
        heads: int = 8,
        *,
        inner: int | None = None,
        updates_nodes: bool = True,
        updates_edges: bool = True,
    ) -> None:
        super().__init__()
        self.node_norm = nn.LayerNorm(hidden)
        self.edge_norm = nn.LayerNorm(hidden)
        self.query = nn.Linear(hidden, hidden)
        self.key = nn.Linear(hidden, hidden, bias=False)
        self.scale_and_shift = nn.Linear(hidden, 2 * hidden, bias=False)  # W_Ew and W_Eb
        self.directions = nn.Parameter(torch.randn(2, 2 * hidden) / hidden**0.5)  # b_w and b_b of each
        self.attention = NeighbourAttention(hidden, heads) if updates_nodes else None
        inner = inner or 2 * hidden
        self.feed_forward = (
            nn.Sequential(nn.LayerNorm(hidden), Mlp(hidden, inner, hidden)) if updates_nodes else None
        )
        self.edge_update = nn.Linear(hidden, hidden) if updates_edges else None

    def forward(self, state: State, links: Links) -> State:
        nodes, edges, features = state
        normed = self.node_norm(nodes)
        along, against = self.pairs(normed, self.edge_norm(edges), links)
        if self.attention is not None and self.feed_forward is not None:
            nodes = nodes + self.attention(normed, torch.cat([along, against]), links)
            nodes = nodes + self.feed_forward(nodes)
        if self.edge_update is not None:
            edges = edges + self.edge_update((along + against) / 2)
        return State(nodes, edges, features)

    def pairs(self, nodes: Tensor, edges: Tensor, links: Links) -> list[Tensor]:
        """Return the states of pairs: each target with its source, and the reverse. [E, hidden] each"""
        query, key, modulation = self.query(nodes), self.key(nodes), self.scale_and_shift(edges)
        ends = [(links.target, links.source), (links.source, links.target)]
        pairs = []
        for (receiver, sender), direction in zip(ends, self.directions, strict=True):
            scale, shift = (modulation + direction).chunk(2, dim=1)
            pairs.append((signed_root((query[receiver] + key[sender]) * scale) + shift).relu())
        return pairs


class NeighbourAttention(nn.Module):
    """Attention of each node to its neighbours, given states of pairs: along edges, then against them."""

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        if hidden % heads:
            raise ValueError(f"hidden={hidden} is not a multiple of heads={heads}.")
        self.heads, width = heads, hidden // heads
        self.score = nn.Parameter(torch.randn(heads, width) / width**0.5)  # W_A
        self.value = nn.Linear(hidden, hidden)
        self.pair_value = nn.Parameter(torch.randn(heads, width, width) / width**0.5)  # W_Ev
        self.out = nn.Linear(hidden, hidden)
        self.by_degree = nn.Parameter(torch.stack([torch.ones(hidden), torch.zeros(hidden)]))  # theta

    def forward(self, nodes: Tensor, pairs: Tensor, links: Links) -> Tensor:  # [N, d], [2 E, d] -> [N, d]
        receiver = torch.cat([links.target, links.source])
        sender = torch.cat([links.source, links.target])
        pairs, values = (x.unflatten(1, (self.heads, -1)) for x in (pairs, self.value(nodes)))
        weight = scatter_softmax((pairs * self.score).sum(-1), receiver, len(nodes))[..., None]
        from_nodes, from_pairs = (scatter(weight * x, receiver, len(nodes)) for x in (values[sender], pairs))
        # W_Ev is linear, so it can follow the sum: once per node, not once per edge
        mixed = from_nodes + torch.einsum("nhi,hij->nhj", from_pairs, self.pair_value)
        degree = degrees(links.batch).sum(1, keepdim=True).to(nodes.dtype)
        constant, growing = self.by_degree
        return self.out(mixed.flatten(1)) * (constant + growing * degree.log1p())


@dataclass(frozen=True)
class Grit:
    """The configuration of GRIT blocks in a `GraphMetanetwork`: `blocks=gmn.nn.Grit(heads=16)`.

    >>> import graph_metanetworks as gmn
    >>> gmn.GraphMetanetwork(hidden=32, layers=3, blocks=gmn.nn.Grit(heads=4, steps=8)).num_parameters > 0
    True

    Args:
        heads: attention heads of each block.
        steps: number of random-walk powers encoded before the first block; 0 for none.
    """

    heads: int = 8
    steps: int = 0

    def make(self, hidden: int, layers: int, readout: Readout, inner: int | None = None) -> list[nn.Module]:
        """Make the blocks. The last one updates only what the readout reads."""
        walks = [RandomWalkEncoder(hidden, self.steps)] if self.steps else []
        blocks = [GritBlock(hidden, self.heads, inner=inner) for _ in range(layers - 1)]
        last = GritBlock(
            hidden,
            self.heads,
            inner=inner,
            updates_nodes=readout.reads_nodes,
            updates_edges=readout.reads_edges,
        )
        return [*walks, *blocks, last]
