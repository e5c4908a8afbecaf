"""Statement 2: metanetworks are equivariant to parameter permutations from automorphisms (appendix B.6).

Metanetworks with random weights run on computation graphs and on parameter graphs. On permuted weights, their
graph-level results are the same, and their node- and edge-level results are permuted in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle

import torch
from torch import Tensor

from graph_metanetworks.computation_graph import AutomorphismGroup, ComputationGraph, computation_graph
from graph_metanetworks.computation_graph.network import edge_order
from graph_metanetworks.graph.batch import collate
from graph_metanetworks.nn.metanetwork import GraphMetanetwork
from graph_metanetworks.theory.networks import RandomNetwork, random_networks
from graph_metanetworks.theory.statement import Trial
from graph_metanetworks.trace.tracer import trace

LEVELS = ("graph", "node", "edge")
OPTIONS = ({}, {"aggregation": "sum", "two_way": False}, {"global_feature": True}, {"aggregation": "max"})


def trials(seed: int, count: int) -> Iterator[Trial]:
    for number, (network, options) in enumerate(
        zip(random_networks(seed, count), cycle(OPTIONS), strict=False)
    ):
        generator = torch.Generator().manual_seed(seed + number)
        graph = computation_graph(network.model, network.shape)
        automorphism = AutomorphismGroup(graph).sample(generator)
        errors = [
            on_computation_graph(graph, automorphism, metanetwork(level, options, seed)) for level in LEVELS
        ]
        errors += [
            on_parameter_graph(network, metanetwork(level, options, seed), generator)
            for level in ("graph", "node")
        ]
        yield Trial(network.family, len(errors), max(errors))


def metanetwork(level: str, options: dict, seed: int) -> GraphMetanetwork:
    """Build a metanetwork with random weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return GraphMetanetwork(8, 2, 2, level=level, **options).double()  # pyright: ignore[reportArgumentType]


@torch.no_grad()
def on_computation_graph(graph: ComputationGraph, automorphism: Tensor, network: GraphMetanetwork) -> float:
    """Return how far the result on permuted weights is from the permuted result, relative to the largest."""
    structure, weights = graph.as_network()
    _, moved = graph.permuted(automorphism).as_network()
    before, after = network(collate([(structure, weights), (structure, moved)])).unflatten(0, (2, -1))
    if network.level == "node":
        after = after[automorphism]
    if network.level == "edge":
        order = edge_order(graph).argsort()  # where each edge of the computation graph lies in the result
        before, after = before[order], after[order][graph.conditions.edge_images(automorphism)]
    return float((after - before).abs().max() / before.abs().max())


@torch.no_grad()
def on_parameter_graph(
    network: RandomNetwork, metanet: GraphMetanetwork, generator: torch.Generator
) -> float:
    graph = trace(network.model, network.example(0))
    automorphism, weights = graph.symmetry.sample(generator), network.model.state_dict()
    batch = collate([(graph, weights), (graph, automorphism.apply(weights))])
    before, after = metanet(batch).unflatten(0, (2, -1))
    after = after[automorphism.nodes] if metanet.level == "node" else after
    return float((after - before).abs().max() / before.abs().max())
