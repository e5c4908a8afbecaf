"""`MessagePassing` over an edge list, reductions and softmax are those of PyTorch Geometric, bit for bit."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch_geometric.nn import MetaLayer
from torch_geometric.utils import scatter as pyg_scatter
from torch_geometric.utils import softmax as pyg_softmax

import graph_metanetworks as gmn
from graph_metanetworks.nn.scatter import scatter, scatter_softmax
from graph_metanetworks.nn.state import Links, State, degrees
from support.permuted import many

OPTIONS = {
    "mean": {},
    "sum": {"aggregation": "sum"},
    "fan": {"aggregation": "fan", "two_way": False},
    "max": {"aggregation": "max", "global_feature": True},
    "globals": {"global_feature": True},
    "nodes only": {"global_feature": True, "updates_edges": False},
}


def meta_layers(block: gmn.nn.MessagePassing, state: State, links: Links) -> State:
    """The block as PyG's `MetaLayer`."""
    nodes, edges, features = state
    has_globals = block.global_update is not None
    first = MetaLayer(None, _NodeModel(block, links), _GlobalModel(block, links) if has_globals else None)
    normed, network = block.edge_norm(edges), links.node_network
    nodes, _, features = first(nodes, links.edge_index, normed, features, network)
    if block.edge_update is not None and block.edge_node_norm is not None:
        second = MetaLayer(_EdgeModel(block))
        _, change, _ = second(block.edge_node_norm(nodes), links.edge_index, normed, features, network)
        edges = edges + change
    return State(nodes, edges, features)


class _Model(nn.Module):
    def __init__(self, block: gmn.nn.MessagePassing, links: Links | None = None) -> None:
        super().__init__()
        self.block, self.links = block, links


class _NodeModel(_Model):
    def forward(self, nodes, edge_index, edges, features, network):
        block, (source, target) = self.block, edge_index
        normed = block.node_norm(nodes)
        messages, receivers = [], []
        for direction, (sender, receiver) in enumerate([(source, target), (target, source)]):
            parts = [normed[receiver], normed[sender], edges]
            if block.two_way:
                mark = F.one_hot(torch.tensor(direction), 2).to(edges.dtype)
                parts.append(mark.expand(len(edges), 2))
            if features is not None:
                parts.append(features[network[receiver]])
            if direction == 0 or block.two_way:
                inner = block.message.first(torch.cat(parts, dim=1)).relu()
                messages.append(inner if block.aggregation == "max" else block.message.second(inner))
                receivers.append(receiver)
        reduce = "max" if block.aggregation == "max" else "sum"
        sums = pyg_scatter(torch.cat(messages), torch.cat(receivers), 0, len(nodes), reduce)
        mean = block.aggregated(sums, degrees(self.links.batch))
        mean = block.message.second(mean) if block.aggregation == "max" else mean
        context = [] if features is None else [features[network]]
        return nodes + block.node_update(torch.cat([normed, mean, *context], dim=1))


class _GlobalModel(_Model):
    def forward(self, nodes, edge_index, edges, features, network):
        node_mean = pyg_scatter(nodes, network, 0, len(features), "mean")
        edge_mean = pyg_scatter(edges, self.links.edge_network, 0, len(features), "mean")
        return self.block.updated_globals(features, node_mean, edge_mean)


class _EdgeModel(_Model):
    def forward(self, sources, targets, edges, features, network):
        parts = [sources, targets, edges] + ([] if features is None else [features[network]])
        return self.block.edge_update(torch.cat(parts, dim=1))


@pytest.mark.parametrize("option", OPTIONS)
def test_a_block_equals_meta_layers(option: str) -> None:
    torch.manual_seed(0)
    block = gmn.nn.MessagePassing(8, 6, **OPTIONS[option])
    links = Links(many(["mlp-relu", "lstm", "cnn-2d-batch-norm", "mlp-relu"]).to(torch.float32))
    features = torch.randn(4, 8) if OPTIONS[option].get("global_feature") else None
    state = State(torch.randn(links.batch.num_nodes, 8), torch.randn(links.batch.num_edges, 8), features)
    outcomes = []
    for run in (block, lambda *given: meta_layers(block, *given)):
        block.zero_grad()
        result = [part for part in run(state, links) if part is not None]
        torch.stack([part.square().mean() for part in result]).sum().backward()
        outcomes.append([*result, *(p.grad for p in block.parameters() if p.grad is not None)])
    for found, expected in zip(*outcomes, strict=True):
        assert torch.equal(found, expected)


@pytest.mark.parametrize("reduction", ["sum", "mean", "max"])
@pytest.mark.parametrize("shape", [(50,), (50, 3), (50, 2, 3)])
def test_scatter_equals_pyg(reduction: str, shape: tuple[int, ...]) -> None:
    rows, index = torch.randn(shape), torch.randint(7, (50,))
    assert torch.equal(scatter(rows, index, 9, reduction), pyg_scatter(rows, index, 0, 9, reduction))


def test_softmax_equals_pyg() -> None:
    scores, index = 30 * torch.randn(50, 3), torch.randint(7, (50,))
    assert torch.equal(scatter_softmax(scores, index, 9), pyg_softmax(scores, index, num_nodes=9))


def test_unknown_reductions() -> None:
    with pytest.raises(ValueError, match="reduction='median' is none of sum, mean, max"):
        scatter(torch.zeros(2), torch.zeros(2, dtype=torch.int64), 1, "median")
