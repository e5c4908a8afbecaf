"""Statement 4: permuting hidden channels of a CNN's computation graph is an automorphism (appendix B.3).

Permuting the pixels of one channel is not. The converse, which the paper leaves open, is false: where kernels
are as large as a circular image, translating all pixels of a hidden channel is an automorphism too.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import torch
from torch import Tensor

from graph_metanetworks.computation_graph import ComputationGraph, Layer, computation_graph
from graph_metanetworks.theory.networks import random_networks
from graph_metanetworks.theory.statement import Trial

SAMPLES = 6


def trials(seed: int, count: int) -> Iterator[Trial]:
    random, generator = Random(seed), torch.Generator().manual_seed(seed)
    for network in random_networks(seed, count, "cnn, convolutions only", "cnn, one-dimensional"):
        graph = computation_graph(network.model, network.shape)
        good = [permuted_channels(graph, generator) for _ in range(SAMPLES)]
        bad = [swapped_pixels(graph, random) for _ in range(SAMPLES)]
        wrong = sum(not graph.is_automorphism(one) for one in good) + sum(map(graph.is_automorphism, bad))
        yield Trial(network.family, len(good) + len(bad), wrong)


def permuted_channels(graph: ComputationGraph, generator: torch.Generator) -> Tensor:
    """Permute the channels of each hidden layer, at all positions by the same permutation."""
    permutation = torch.arange(graph.num_nodes)
    for layer in hidden_layers(graph):
        nodes = layer.numbered()  # [1, channels, *places]
        order = torch.randperm(nodes.shape[1], generator=generator)
        permutation[nodes] = nodes[:, order]
    return permutation


def swapped_pixels(graph: ComputationGraph, random: Random) -> Tensor:
    """Swap two pixels of one hidden channel."""
    channels = [
        nodes for layer in hidden_layers(graph) for nodes in layer.numbered()[0].flatten(1) if len(nodes) > 2
    ]
    first, second = random.sample(random.choice(channels).tolist(), 2)
    permutation = torch.arange(graph.num_nodes)
    permutation[first], permutation[second] = second, first
    return permutation


def hidden_layers(graph: ComputationGraph) -> list[Layer]:
    return [layer for layer in graph.layers if layer.kind == "hidden"]
