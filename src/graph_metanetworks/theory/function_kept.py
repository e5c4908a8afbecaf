"""Statement 1: every automorphism of a computation graph keeps the function (section 2.2, appendix B.4)."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.func import functional_call

from graph_metanetworks.computation_graph import AutomorphismGroup, ComputationGraph, computation_graph
from graph_metanetworks.theory.networks import RandomNetwork, random_networks
from graph_metanetworks.theory.statement import Trial

SAMPLES = 4


def trials(seed: int, count: int) -> Iterator[Trial]:
    """Try automorphisms found by search, which knows nothing of layers and channels."""
    for number, network in enumerate(random_networks(seed, count)):
        graph = computation_graph(network.model, network.shape)
        group = AutomorphismGroup(graph)
        generator = torch.Generator().manual_seed(seed + number)
        found = [group.sample(generator) for _ in range(SAMPLES)]
        errors = [change(network, graph, automorphism, seed) for automorphism in found]
        yield Trial(network.family, len(found), max(errors))


def change(network: RandomNetwork, graph: ComputationGraph, automorphism: Tensor, seed: int) -> float:
    """Return how much permuted weights change the activations and the output of graph and module.

    The proof shows more than the statement: activations are permuted like the neurons.
    """
    x = network.example(seed)
    moved = graph.permuted(automorphism)
    before, after = graph.activations(x), moved.activations(x)
    with torch.no_grad():
        output = network.model(x)
        by_module = functional_call(network.model, moved.state_dict(), (x,))
    differences = (after[automorphism] - before, moved.evaluate(x) - output, by_module - output)
    return max(float(difference.abs().max()) for difference in differences)
