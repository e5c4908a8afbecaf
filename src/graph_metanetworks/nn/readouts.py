"""Readouts: results for each network, node or edge from final states."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from graph_metanetworks.graph.batch import Batch
from graph_metanetworks.nn.encoders import EdgeEncoder
from graph_metanetworks.nn.engine.panel import Panel
from graph_metanetworks.nn.engine.sweep import Terms
from graph_metanetworks.nn.fitted import Fitted, refilled
from graph_metanetworks.nn.mlp import Mlp, product
from graph_metanetworks.nn.norm import RmsNorm, normed
from graph_metanetworks.nn.state import Links, State
from graph_metanetworks.nn.vocabulary import Vocabulary, tensor_rows

if TYPE_CHECKING:
    from graph_metanetworks.nn.metanetwork import GraphMetanetwork


class Readout(nn.Module):
    """Base of readouts. Subclasses implement `forward(state, links) -> Tensor`.

    Readouts of edges also implement `cell`, which works piece by piece, so that no edge state is stored.
    """

    reads_nodes = True  # False: the last block need not update nodes, unless its edge update reads them
    reads_edges = True  # False: the last block need not update edges

    def fit(self, batches: Iterable[Batch], network: GraphMetanetwork) -> None:
        """Adapt to a training zoo. `network` holds this readout; its encoders are fitted already."""

    def add_outputs(self, width: int) -> None:
        """Expect encoded outputs on probes, `[B, width]`, in `links.outputs`; by default they are ignored."""

    def forward(self, state: State, links: Links) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} needs forward(state, links)")


class PooledEdges(Readout):
    """Base of readouts that sum terms over the edges of each network."""

    reads_nodes = False

    def num_segments(self, batch: Batch) -> int:
        return len(batch)

    def segments(self, panel: Panel, batch: Batch) -> Tensor:
        """Return the segment that each edge is summed into, broadcastable to the panel."""
        networks = torch.tensor([use.network for use in panel.uses], device=panel.use.device)
        return networks[panel.use]

    def weights(self) -> list[Tensor]:
        return []

    def cell(self, edges: Tensor, weights: list[Tensor]) -> Tensor:
        """Return the terms to sum: normed states, without the scale, which `finish` can apply to the sum."""
        return normed(edges)

    def finish(self, pooled: Tensor, batch: Batch) -> Tensor:
        """Return the result from sums `[segments, width]`."""
        raise NotImplementedError(f"{type(self).__name__} needs finish(pooled, batch)")

    def forward(self, state: State, links: Links) -> Tensor:
        terms = self.cell(state.edges, self.weights())
        pooled = terms.new_zeros(self.num_segments(links.batch), terms.shape[-1])
        pooled = pooled.index_add(0, self.segments(links.panel, links.batch), terms)
        return self.finish(pooled, links.batch)


class MeanEdges(PooledEdges):
    """The paper's readout: the mean over a network's edges, then an MLP. [B, out]"""

    def __init__(self, hidden: int, out: int) -> None:
        super().__init__()
        self.norm = RmsNorm(hidden)
        self.head = Mlp(hidden, hidden, out)

    def finish(self, pooled: Tensor, batch: Batch) -> Tensor:
        counts = [graph.num_edges for graph in batch.graphs]
        return self.head(self.norm.weight * pooled / torch.tensor(counts, device=pooled.device)[:, None])


class MeanByKind(MeanEdges):
    """The mean over each kind of edge, then over kinds, which count equally however many edges they have."""

    def __init__(self, hidden: int, out: int, vocabulary: Vocabulary | None = None) -> None:
        super().__init__(hidden, out)
        self.vocabulary = vocabulary or Vocabulary()
        self.kind = nn.Embedding(len(self.vocabulary.edge_kinds), hidden)
        self.mix = Mlp(2 * hidden, hidden, hidden)

    def num_segments(self, batch: Batch) -> int:
        return len(batch) * self.kind.num_embeddings

    def segments(self, panel: Panel, batch: Batch) -> Tensor:
        width = self.kind.num_embeddings
        kinds = panel.kinds(self.vocabulary, batch)
        numbers = [use.network * width + kind for use, kind in zip(panel.uses, kinds, strict=True)]
        return torch.tensor(numbers, device=panel.use.device)[panel.use]

    def finish(self, pooled: Tensor, batch: Batch) -> Tensor:
        width = self.kind.num_embeddings
        counts = torch.zeros(len(batch), width)
        for network, graph in enumerate(batch.graphs):
            kinds = [block.kind for block in graph.blocks]
            rows = self.vocabulary.rows("edge_kinds", kinds, batch.names[network])
            sizes = torch.tensor([float(block.num_edges) for block in graph.blocks])
            counts[network].index_add_(0, torch.tensor(rows), sizes)
        counts = counts.to(pooled)
        means = self.norm.weight * pooled.view(len(batch), width, -1) / counts.clamp(min=1)[..., None]
        mixed = self.mix(torch.cat([means, self.kind.weight.expand_as(means)], dim=-1))
        present = (counts > 0)[..., None].to(pooled.dtype)
        return self.head((mixed * present).sum(1) / present.sum(1))


class AttentionPooling(MeanEdges):
    """A weighted mean over edges, with learned weights for each head."""

    def __init__(self, hidden: int, out: int, heads: int = 4) -> None:
        super().__init__(hidden, out)
        self.score = nn.Linear(hidden, heads)
        self.value = nn.Linear(hidden, hidden)

    def weights(self) -> list[Tensor]:
        scale = self.norm.weight
        return [self.score.weight * scale, self.score.bias, self.value.weight * scale, self.value.bias]

    def cell(self, edges: Tensor, weights: list[Tensor]) -> Tensor:
        states = normed(edges)
        # scores are bounded, so sums of exponentials need no running maximum
        weight = (8 * torch.tanh(F.linear(states, *weights[:2]) / 8)).exp()
        value = F.linear(states, *weights[2:]).unflatten(-1, (weight.shape[-1], -1))
        return torch.cat([(value * weight[..., None]).flatten(-2), weight], dim=-1)

    def finish(self, pooled: Tensor, batch: Batch) -> Tensor:
        heads = self.score.out_features
        sums, weight = pooled[:, :-heads], pooled[:, -heads:]
        return self.head((sums.unflatten(-1, (heads, -1)) / weight[..., None]).flatten(1))


class EachNode(Readout):
    """A result for each node. [N, out]"""

    reads_edges = False

    def __init__(self, hidden: int, out: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(hidden)
        self.head = Mlp(hidden, hidden, out)

    def forward(self, state: State, links: Links) -> Tensor:
        return self.head(self.norm(state.nodes))


class MeanNodes(EachNode):
    """The mean over a network's nodes, then an MLP. [B, out]"""

    def forward(self, state: State, links: Links) -> Tensor:
        sizes = [graph.num_nodes for graph in links.batch.graphs]
        means = [part.mean(0) for part in self.norm(state.nodes).split(sizes)]
        return self.head(torch.stack(means))


class EachEdge(Readout):
    """A result for each edge. [E, out]"""

    reads_nodes = False

    def __init__(self, hidden: int, out: int) -> None:
        super().__init__()
        self.norm = RmsNorm(hidden)
        self.head = nn.Linear(hidden, out)

    def weights(self) -> list[Tensor]:
        return [self.head.weight * self.norm.weight, self.head.bias]

    def cell(self, edges: Tensor, weights: list[Tensor]) -> Tensor:
        weight, bias = weights
        return product(normed(edges), weight) + bias

    def finish(self, result: Tensor, panel: Panel, batch: Batch) -> Tensor:
        """Return the result on a panel, `[*shape, out]`."""
        return result

    def forward(self, state: State, links: Links) -> Tensor:
        return self.finish(self.cell(state.edges, self.weights()), links.panel, links.batch)


class FromEnds(Readout):
    r"""A result for each edge from its weight and the states of its two nodes, in one pass. [E, out]

    .. math:: y_{ij} = Q\, \mathrm{ReLU}(A v_j + B v_i + C e_{ij}) + \langle S v_j, T v_i \rangle

    where :math:`e_{ij}` are features of the weight, its kind and its position. The second term, of low rank,
    is one matrix product for each weight matrix. No state of an edge is needed, so this suits blocks that
    update nodes only.

    Args:
        inner: width of the hidden layer.
        rank: of the second term, for each output.
    """

    reads_edges = False

    def __init__(
        self,
        hidden: int,
        out: int,
        inner: int = 32,
        *,
        rank: int = 16,
        channels: int = 1,
        fourier: int = 0,
        vocabulary: Vocabulary | None = None,
        tensors: Sequence[str] = (),
    ) -> None:
        super().__init__()
        self.inner, self.out, self.rank = inner, out, rank
        self.encoder = EdgeEncoder(
            inner, vocabulary or Vocabulary(), channels=channels, fourier=fourier, tensors=tensors
        )
        self.norm = nn.LayerNorm(hidden)
        self.source = nn.Linear(hidden, inner + out * rank, bias=False)
        self.target = nn.Linear(hidden, inner + out * rank)
        self.head = nn.Linear(inner, out)

    def fit(self, batches: Iterable[Batch], network: GraphMetanetwork) -> None:
        self.encoder.fit(batches)

    def end_terms(self, nodes: Tensor) -> Terms:
        """Return the terms of nodes as sources and as targets. [N, hidden] -> [N, inner + out * rank] each"""
        nodes = self.norm(nodes)
        return Terms(self.source(nodes), self.target(nodes))

    def weights(self) -> list[Tensor]:
        return [*self.encoder.weights(), self.head.weight, self.head.bias]

    def cell(self, on_edges: list[Tensor], ends: Terms, weights: list[Tensor]) -> Tensor:
        """Return the result on a piece from the inputs of the encoder and terms at both ends."""
        values, base, factor, offset = on_edges
        on_features, head, bias = weights
        (source, left), (target, right) = (end.split([self.inner, self.out * self.rank], -1) for end in ends)
        terms = (target + base + source).expand(*values.shape[:-1], -1)
        features = self.encoder.features(values, factor, offset)
        # all terms in one pass: this is the only step whose results are as wide as `inner` on every edge
        inner = torch.addmm(terms.flatten(0, -2), features.flatten(0, -2), on_features.t()).relu_()
        left, right = (end.unflatten(-1, (self.out, self.rank)) for end in (left, right))
        joint = torch.einsum("...or,...or->...o", left, right) / self.rank**0.5
        return F.linear(inner, head, bias).view(*values.shape[:-1], -1) + joint

    def forward(self, state: State, links: Links) -> Tensor:
        """Run on an explicit list of edges: the reference that the engine must equal."""
        terms = self.end_terms(state.nodes)
        ends = Terms(terms.source[links.source], terms.target[links.target])
        return self.cell(self.encoder.terms(links.panel, links.batch), ends, self.weights())


class Edit(Fitted, EachEdge):
    r"""New weights :math:`\theta + \gamma \sigma f(\theta)`, with a step size :math:`\gamma` per tensor.

    The step size is learned and starts at 0.01. The deviation :math:`\sigma` of the tensor's weights in the
    training zoo, 1 before `fit`, keeps the first steps small where weights are small. Each of `tensors`, and
    each tensor that `fit` finds, has its own step size; others share one per kind.
    """

    def __init__(
        self,
        hidden: int,
        out: int = 1,
        *,
        vocabulary: Vocabulary | None = None,
        tensors: Sequence[str] = (),
        start: float = 0.01,
    ) -> None:
        super().__init__(hidden, out)
        self.vocabulary = vocabulary or Vocabulary()
        self.start = start
        self.set_fitted_names(tensors)
        self.register_load_state_dict_pre_hook(_add_deviation)

    def make_tables(self) -> None:
        rows, like = len(self.vocabulary.edge_kinds) + len(self.fitted_names), self.norm.weight
        self.gamma = refilled(getattr(self, "gamma", None), like.new_full((rows,), self.start))
        self.deviation = nn.Buffer(like.new_ones(rows, self.head.out_features))

    def fit(self, batches: Iterable[Batch], network: GraphMetanetwork) -> None:
        """Make a step size for each tensor of the training zoo, in units of its deviation; all are reset."""
        self.set_fitted_names(dict.fromkeys([*self.fitted_names, *network.tensor_names]))
        if network.edge_encoder is None:
            return
        kinds, found = len(self.vocabulary.edge_kinds), network.edge_encoder.deviation
        rows = [*range(kinds), *(kinds + self.fitted_names.index(name) for name in network.tensor_names)]
        self.deviation[rows] = found[:, : self.deviation.shape[1]].to(self.deviation)

    def finish(self, result: Tensor, panel: Panel, batch: Batch) -> Tensor:
        kinds = panel.kinds(self.vocabulary, batch)
        rows = tensor_rows(self.fitted_names, panel.blocks(batch), kinds, len(self.vocabulary.edge_kinds))
        step = (self.gamma[:, None] * self.deviation)[torch.tensor(rows, device=result.device)][panel.use]
        weights = panel.values[..., : result.shape[-1]]  # further channels, such as gradients, are not edited
        return torch.addcmul(weights.to(result.dtype), step, result)


def _add_deviation(module: Edit, state_dict: dict[str, Tensor], prefix: str, *_: Any) -> None:
    """Add what earlier versions did not save: their step sizes were absolute."""
    state_dict.setdefault(prefix + "deviation", torch.ones_like(module.deviation))
