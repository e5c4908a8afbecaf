"""Relative random-walk encodings: the probability that a walk of k steps leads from one node to another."""

from __future__ import annotations

from typing import NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from graph_metanetworks.graph.parameter_graph import ParameterGraph
from graph_metanetworks.nn.state import Links, State

MAX_NODES = 5_000
STARTS_AT_ONCE = 256  # start nodes whose walks are computed together, with N x 256 numbers of memory


class RandomWalkEncoder(nn.Module):
    r"""Adds random-walk encodings to the states of nodes and edges; put it before the other blocks.

    The encoding is RRWP of `GRIT <https://arxiv.org/abs/2305.17589>`_. With :math:`M = D^{-1} A` of the
    undirected parameter graph, a node gets :math:`M^k_{ii}`, an edge :math:`M^k_{ij}` and :math:`M^k_{ji}`,
    for :math:`k = 0, ..., steps - 1`, each through a linear map. A step goes to each neighbour with equal
    probability, however many parallel edges lead there. These numbers are invariant to symmetries, so the
    encoder is equivariant.

    Args:
        hidden: width of states.
        steps: number of powers, including the zeroth.
        max_nodes: larger graphs are rejected. The time grows with nodes times pairs of neighbours.
    """

    def __init__(self, hidden: int, steps: int, *, max_nodes: int = MAX_NODES) -> None:
        super().__init__()
        self.steps, self.max_nodes = steps, max_nodes
        self.node = nn.Linear(steps, hidden, bias=False)
        self.edge = nn.Linear(2 * steps, hidden, bias=False)

    def forward(self, state: State, links: Links) -> State:
        batch = links.batch
        walks = [self._walks(graph) for graph in batch.graphs]
        pairs = [walk.pairs + start for walk, start in zip(walks, batch.node_starts[:-1], strict=True)]
        known = _pair_id(torch.cat(pairs, dim=1), batch.num_nodes).to(links.source.device)
        across = torch.cat([walk.across for walk in walks]).to(state.edges)
        returns = torch.cat([walk.returns for walk in walks]).to(state.nodes)
        ids = [_pair_id(ends, batch.num_nodes) for ends in _both_ways(links.edge_index)]
        rows = [torch.searchsorted(known, edge_ids) for edge_ids in ids]
        return state._replace(
            nodes=state.nodes + self.node(returns),
            edges=state.edges + self.edge(torch.cat([across[row] for row in rows], dim=1)),
        )

    def _walks(self, graph: ParameterGraph) -> Walks:
        if graph.num_nodes > self.max_nodes:
            raise ValueError(
                f"{graph.name} has {graph.num_nodes:,} nodes, more than max_nodes={self.max_nodes:,} of "
                "RandomWalkEncoder. Leave the encoder out, or raise max_nodes; it takes longer."
            )
        return random_walks(graph, self.steps)


class Walks(NamedTuple):
    """Probabilities of walks with 0, ..., steps - 1 steps on one graph."""

    pairs: Tensor  # [2, P] neighbours in both orders, sorted
    across: Tensor  # [P, steps] from the first of a pair to the second
    returns: Tensor  # [N, steps] from a node to itself


_WALKS: WeakKeyDictionary[ParameterGraph, dict[int, Walks]] = WeakKeyDictionary()


def random_walks(graph: ParameterGraph, steps: int) -> Walks:
    """Return the walks on a graph, in float64, cached.

    >>> import torch, graph_metanetworks as gmn
    >>> graph = gmn.trace(torch.nn.Linear(2, 1, bias=False), torch.randn(1, 2))      # a path of three nodes
    >>> random_walks(graph, steps=3).returns.tolist()       # the ends return by chance, the middle surely
    [[1.0, 0.0, 0.5], [1.0, 0.0, 0.5], [1.0, 0.0, 1.0]]
    """
    known = _WALKS.setdefault(graph, {})
    if steps not in known:
        known[steps] = _walk(graph, steps)
    return known[steps]


def _walk(graph: ParameterGraph, steps: int) -> Walks:
    size = graph.num_nodes
    numbers = torch.cat([_pair_id(ends, size) for ends in _both_ways(graph.edge_index)]).unique()
    pairs = torch.stack([numbers // size, numbers % size])
    neighbours = pairs[0].bincount(minlength=size)
    chances = 1 / neighbours[pairs[1]].double()
    step = torch.sparse_coo_tensor(pairs, chances, (size, size), is_coalesced=True, check_invariants=False)
    across = torch.zeros(pairs.shape[1], steps, dtype=torch.float64)
    returns = torch.zeros(size, steps, dtype=torch.float64)
    ends = neighbours.cumsum(0)  # where the pairs that start at each node end
    for first in range(0, size, STARTS_AT_ONCE):
        starts = torch.arange(first, min(first + STARTS_AT_ONCE, size))
        chunk = slice(int(ends[first] - neighbours[first]), int(ends[starts[-1]]))
        column, goal = pairs[0, chunk] - first, pairs[1, chunk]
        reached = torch.zeros(size, len(starts), dtype=torch.float64)  # [to, from]
        reached[starts, starts - first] = 1
        for k in range(steps):
            reached = step @ reached if k else reached
            across[chunk, k] = reached[goal, column]
            returns[starts, k] = reached[starts, starts - first]
    return Walks(pairs, across, returns)


def _both_ways(edge_index: Tensor) -> tuple[Tensor, Tensor]:
    return edge_index, edge_index.flip(0)


def _pair_id(pairs: Tensor, size: int) -> Tensor:
    """Number the ordered pairs of `size` nodes in lexicographic order. [2, P] -> [P]"""
    return pairs[0] * size + pairs[1]
