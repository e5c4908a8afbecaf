"""Use layers of PyTorch Geometric on parameter graphs: as blocks of a metanetwork, and on plain PyG data.

python examples/pyg_blocks.py
"""

import torch
from torch import Tensor, nn
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GATv2Conv, GINEConv, GPSConv, global_mean_pool

import graph_metanetworks as gmn

HIDDEN = 16


def gine() -> GINEConv:
    return GINEConv(nn.Sequential(nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN)))


LAYERS = {
    "GINEConv": gine,
    "GATv2Conv": lambda: GATv2Conv(HIDDEN, HIDDEN // 4, heads=4, edge_dim=HIDDEN, add_self_loops=False),
    "GPSConv": lambda: GPSConv(HIDDEN, gine(), heads=4, norm="layer_norm"),
}


def fit(net: gmn.GraphMetanetwork, batch: gmn.Batch, labels: Tensor, steps: int = 80) -> float:
    """Train on one batch and return the last loss."""
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-2)
    loss = labels.new_zeros(())
    for _ in range(steps):
        loss = (net(batch).squeeze(1) - labels).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return loss.item()


def main() -> None:
    torch.manual_seed(0)
    networks = [nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1)) for _ in range(32)]
    graph = gmn.trace(networks[0], torch.randn(1, 3))  # one graph for all: they share an architecture
    labels = torch.stack([net(torch.ones(1, 3)).detach().squeeze() for net in networks])

    print("as blocks: predict the output of each network on (1, 1, 1)")
    batch = gmn.collate([(graph, net.state_dict()) for net in networks])
    for name, layer in LAYERS.items():
        blocks = [gmn.nn.PygBlock(layer(), HIDDEN) for _ in range(2)]
        loss = fit(gmn.GraphMetanetwork(HIDDEN, blocks=blocks), batch, labels)
        print(f"  {name:<10} squared error {loss:.4f}, of the mean {labels.var():.4f}")

    print("on plain data: graph.to_pyg(state_dict) has x, edge_index and edge_attr")
    data = next(iter(DataLoader([graph.to_pyg(net.state_dict()) for net in networks], batch_size=32)))
    nodes = GATv2Conv(3, HIDDEN, edge_dim=1)(data.x, data.edge_index, data.edge_attr)
    print(f"  one vector per network: {list(global_mean_pool(nodes, data.batch).shape)}")


if __name__ == "__main__":
    main()
