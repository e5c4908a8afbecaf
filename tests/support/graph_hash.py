"""A Weisfeiler-Lehman hash of a parameter graph with its weights: what a message-passing network can see."""

from collections import defaultdict
from collections.abc import Hashable

from torch import nn

import graph_metanetworks as gmn


def graph_hash(graph: gmn.ParameterGraph, weights: dict, *, rounds: int = 6) -> int:
    """Equal for graphs that differ in the order of nodes and edges only; names do not count."""
    nodes = zip(
        (graph.node_kinds[i] for i in graph.node_kind.tolist()),
        graph.node_depth.tolist(),
        graph.node_index.tolist(),
        (graph.activations[i] for i in graph.node_activation.tolist()),
        strict=True,
    )
    colours: list[Hashable] = [hash(features) for features in nodes]
    values = [float(f"{value:.5g}") for value in graph.edge_values(weights).double().tolist()]
    kinds = [graph.edge_kinds[i] for i in graph.edge_kind.tolist()]
    positions = [tuple(round(x, 4) for x in row) for row in graph.edge_position.tolist()]
    labels = list(zip(kinds, positions, values, strict=True))
    sources, targets = graph.edge_index.tolist()
    for _ in range(rounds):
        around: dict[int, list[int]] = defaultdict(list)
        for source, target, label in zip(sources, targets, labels, strict=True):
            around[target].append(hash(("in", label, colours[source])))
            around[source].append(hash(("out", label, colours[target])))
        colours = [hash((colour, *sorted(around[node]))) for node, colour in enumerate(colours)]
    return hash(tuple(sorted(colours)))  # type: ignore[type-var]


def hash_of(model: nn.Module, *args: object, tracer: gmn.Tracer | None = None, **kwargs: object) -> int:
    graph = (tracer or gmn.Tracer()).trace(model, *args, **kwargs)
    state = {name: value for name, value in model.state_dict().items() if name not in graph.ignored}
    return graph_hash(graph, state)
