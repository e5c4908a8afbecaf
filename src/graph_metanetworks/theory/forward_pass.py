"""Statement 8: a graph metanetwork that simulates the forward pass of any computation graph (appendix C.2).

One layer for each step of the recursion: messages are weights times activations, and a node applies its
nonlinearity to their sum. After `l` layers all neurons that are at most `l` steps from the inputs are right.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from graph_metanetworks.computation_graph import ComputationGraph, computation_graph
from graph_metanetworks.graph.batch import Batch, collate
from graph_metanetworks.nn.metanetwork import GraphMetanetwork
from graph_metanetworks.nn.updates import NodeUpdate
from graph_metanetworks.theory.features import VALUE, NodeStates, by_hand
from graph_metanetworks.theory.networks import random_networks
from graph_metanetworks.theory.statement import Trial

ACTIVATION, FUNCTION = 0, 1  # columns of node states
KEPT = -1.0  # the function of inputs and bias nodes, whose activation is given


def trials(seed: int, count: int) -> Iterator[Trial]:
    for network in random_networks(seed, count):
        graph = computation_graph(network.model, network.shape)
        errors = []
        for sample in range(2):
            x = network.example(seed + sample)
            with torch.no_grad():
                errors.append(float((simulated(graph, x) - network.model(x)).abs().max()))
        yield Trial(network.family, len(errors), max(errors))


def simulated(graph: ComputationGraph, x: Tensor) -> Tensor:
    """Return the output that a metanetwork computes from the weights on the graph and an input."""
    states = as_metanetwork(graph, x)(collate([graph.as_network()]))
    return states[graph.output.nodes, ACTIVATION].view(graph.output.shape)


def as_metanetwork(graph: ComputationGraph, x: Tensor, layers: int | None = None) -> GraphMetanetwork:
    """Build by default as many layers as the graph is deep.

    They depend on labels of nodes, not on weights.
    """
    functions = list(dict.fromkeys(layer.activation for layer in graph.layers))

    def message(to: Tensor, fro: Tensor, edges: Tensor, along: bool, context: Tensor | None) -> Tensor:
        return edges[:, [VALUE]] * fro[:, [ACTIVATION]]

    def update(nodes: Tensor, sums: Tensor, context: Tensor | None) -> Tensor:
        activation, label = nodes.T
        for number, function in enumerate(functions):
            activation = torch.where(label == number, function(sums[:, 0]), activation)
        return torch.stack([activation, label], dim=1)

    block = NodeUpdate(message, update, two_way=False)
    labels = torch.full((graph.num_nodes,), KEPT, dtype=torch.float64)
    computed = graph.of_kind("hidden", "output")
    numbers = torch.tensor([functions.index(layer.activation) for layer in graph.layers])
    labels[computed] = numbers[graph.node_layer][computed].double()
    start = graph.of_kind("bias").double()
    start[graph.input.nodes] = x.flatten()
    depth = int(graph.node_depth.max()) if layers is None else layers
    encoder = GivenStates(torch.stack([start, labels], dim=1))
    return by_hand([block] * depth, NodeStates(), level="node", node_encoder=encoder)


class GivenStates(nn.Module):
    """First node states that are given: inputs, the 1 of bias nodes, and labels."""

    def __init__(self, states: Tensor) -> None:
        super().__init__()
        self.states = nn.Buffer(states)

    def forward(self, batch: Batch) -> Tensor:
        return self.states
