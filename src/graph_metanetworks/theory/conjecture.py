"""Statement 9, the paper's conjecture (appendix B.5): automorphisms of parameter graphs keep the function.

A sampled automorphism of the parameter graph is lifted to the computation graph. The lift must meet the three
conditions, move the weights as the parameter graph says, and keep the function.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from graph_metanetworks.computation_graph import AutomorphismGroup, Lifting, computation_graph
from graph_metanetworks.theory.function_kept import change
from graph_metanetworks.theory.networks import RandomNetwork, random_networks
from graph_metanetworks.theory.statement import Trial
from graph_metanetworks.trace.tracer import trace

SAMPLES = 4


@dataclass(frozen=True)
class Lifted(Trial):
    """A trial that also says whether the parameter graph shows all automorphisms of the other."""

    complete: bool


def trials(seed: int, count: int) -> Iterator[Lifted]:
    for number, network in enumerate(random_networks(seed, count)):
        generator = torch.Generator().manual_seed(seed + number)
        claimed, found = orders(network)
        yield Lifted(network.family, SAMPLES, lifted_change(network, generator, seed), claimed == found)


def lifted_change(network: RandomNetwork, generator: torch.Generator, seed: int) -> float:
    """Return the largest change by a lifted automorphism; infinite if it is none, or moves other weights."""
    parameter_graph = trace(network.model, network.example(0))
    graph = computation_graph(network.model, network.shape)
    lifting = Lifting(parameter_graph, graph)
    errors = []
    for _ in range(SAMPLES):
        automorphism = parameter_graph.symmetry.sample(generator)
        lifted = lifting.lift(automorphism.nodes)
        if not graph.is_automorphism(lifted):
            return float("inf")
        moved, expected = graph.permuted(lifted).state_dict(), automorphism.apply(graph.state_dict())
        if any(not torch.equal(moved[name], expected[name]) for name in expected):
            return float("inf")
        errors.append(change(network, graph, lifted, seed))
    return max(errors)


def orders(network: RandomNetwork) -> tuple[int, int]:
    """Return how many automorphisms the parameter graph claims, and how many the computation graph has."""
    graph = computation_graph(network.model, network.shape)
    return trace(network.model, network.example(0)).symmetry.order(), AutomorphismGroup(graph).order()
