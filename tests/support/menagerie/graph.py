"""Graph neural networks of torch_geometric, and one by hand."""

from functools import partial
from importlib import import_module
from types import ModuleType

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .architecture import architecture
from .inputs import fixed, inputs, normal

EDGES = torch.tensor([[0, 1, 1, 2, 3, 4, 5, 6, 0, 3, 2], [1, 0, 2, 1, 4, 3, 6, 5, 2, 6, 4]])

graph = partial(architecture, family="graph", example=inputs(normal(7, 5), fixed(EDGES)))


def pyg() -> ModuleType:
    """Import torch_geometric late: it takes seconds in every process that a test starts."""
    return import_module("torch_geometric.nn")


class GraphNetwork(nn.Module):
    """Two message-passing layers with an activation between, and a linear head per node."""

    def __init__(self, first: nn.Module, second: nn.Module, width: int) -> None:
        super().__init__()
        self.first = first
        self.second = second
        self.head = nn.Linear(width, 3)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:  # [N, 5], [2, E] -> [N, 3]
        x = F.elu(self.first(x, edges))
        return self.head(F.elu(self.second(x, edges)))


graph("gcn")(lambda: GraphNetwork(pyg().GCNConv(5, 11), pyg().GCNConv(11, 8), 8))
graph("gat")(
    lambda: GraphNetwork(pyg().GATConv(5, 6, heads=2), pyg().GATConv(12, 8, heads=3, concat=False), 8)
)
graph("gat-v2")(lambda: GraphNetwork(pyg().GATv2Conv(5, 6, heads=2), pyg().GATv2Conv(12, 8), 8))
graph("graph-sage")(lambda: GraphNetwork(pyg().SAGEConv(5, 11), pyg().SAGEConv(11, 8, aggr="max"), 8))


@graph("gin")
def isomorphism_network() -> nn.Module:
    """Return GIN layers with learned epsilon, https://arxiv.org/abs/1810.00826."""
    first = nn.Sequential(nn.Linear(5, 11), nn.ReLU(), nn.Linear(11, 9))
    second = nn.Sequential(nn.Linear(9, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Linear(12, 8))
    return GraphNetwork(pyg().GINConv(first, train_eps=True), pyg().GINConv(second, train_eps=True), 8)


@graph(
    "gcn-pooled",
    example=inputs(normal(7, 5), fixed(EDGES), fixed(torch.tensor([0, 0, 0, 1, 1, 1, 1]))),
)
class PooledGraphNetwork(nn.Module):
    """A graph convolution whose nodes are averaged per graph."""

    def __init__(self) -> None:
        super().__init__()
        self.convolve = pyg().GCNConv(5, 11)
        self.head = nn.Linear(11, 3)

    def forward(self, x: Tensor, edges: Tensor, batch: Tensor) -> Tensor:  # [N, 5] -> [graphs, 3]
        return self.head(pyg().global_mean_pool(F.elu(self.convolve(x, edges)), batch))


@graph("message-passing", example=inputs(normal(7, 5), fixed(EDGES), normal(11, 4)))
class MessagePassing(nn.Module):
    """Messages of sender, receiver and edge, summed at the receiver by index_add."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.embed = nn.Linear(5, width)
        self.message = nn.Sequential(nn.Linear(2 * width + 4, 13), nn.ReLU(), nn.Linear(13, 9))
        self.update = nn.Linear(width + 9, width)
        self.head = nn.Linear(width, 3)

    def forward(self, x: Tensor, edges: Tensor, values: Tensor) -> Tensor:  # [N, 5] -> [3]
        x = self.embed(x)
        sender, receiver = edges
        messages = self.message(torch.cat([x[sender], x[receiver], values], dim=-1))
        received = messages.new_zeros(len(x), 9).index_add(0, receiver, messages)
        return self.head((x + self.update(torch.cat([x, received], dim=-1))).tanh().sum(dim=0))
