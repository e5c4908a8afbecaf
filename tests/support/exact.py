"""All automorphisms of a small parameter graph, counted exactly and without the tracer's group.

The graph is written as a coloured graph: a vertex for each node, for each edge, and for each weight that
lies on several edges. The order of its group is the product of the sizes of orbits along a chain of
stabilisers; whether a vertex can go to another is decided by a search that refines colours and tries every
way to tell equal vertices apart, so that each answer is proved by a complete map or by exhaustion.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass

import graph_metanetworks as gmn

Colouring = list[int]


@dataclass(frozen=True)
class Coloured:
    """Vertices with colours, and arcs with colours between them; nodes of the network come first."""

    colours: list[object]
    arcs: list[list[tuple[int, str]]]
    num_nodes: int


def coloured(graph: gmn.ParameterGraph) -> Coloured:
    features = [graph.node_kind, graph.node_depth, graph.node_index, graph.node_activation]
    colours: list[object] = [("node", *row) for row in zip(*(f.tolist() for f in features), strict=True)]
    arcs: list[list[tuple[int, str]]] = [[] for _ in colours]

    def vertex(colour: object) -> int:
        colours.append(colour)
        arcs.append([])
        return len(colours) - 1

    def join(a: int, b: int, name: str) -> None:
        arcs[a].append((b, f"{name} out"))
        arcs[b].append((a, f"{name} in"))

    labels = zip(graph.edge_kind.tolist(), graph.edge_position.tolist(), strict=True)
    ends = zip(*graph.edge_index.tolist(), strict=True)
    edges = []
    for (kind, position), (source, target) in zip(labels, ends, strict=True):
        edges.append(vertex(("edge", kind, *position)))
        join(source, edges[-1], "source")
        join(edges[-1], target, "target")
    for sharing in shared_weights(graph):
        weight = vertex("weight")
        for edge in sharing:
            join(weight, edges[edge], "shared")
    return Coloured(colours, arcs, graph.num_nodes)


def shared_weights(graph: gmn.ParameterGraph) -> list[list[int]]:
    """The edges of each weight that lies on several."""
    found = defaultdict(list)
    for block, where in zip(graph.blocks, graph.edge_slices, strict=True):
        if block.parameter and block.elements:
            for offset, element in enumerate(block.elements.index().reshape(-1).tolist()):
                found[block.parameter, element].append(where.start + offset)
    return [edges for edges in found.values() if len(edges) > 1]


def order(graph: gmn.ParameterGraph) -> int:
    """The number of automorphisms, as permutations of the network's nodes."""
    return count(coloured(graph))


def count(graph: Coloured) -> int:
    numbers = {colour: i for i, colour in enumerate(dict.fromkeys(graph.colours))}
    colouring, total = refined(graph, [numbers[colour] for colour in graph.colours]), 1
    for node in range(graph.num_nodes):
        alike = [other for other in range(graph.num_nodes) if colouring[other] == colouring[node]]
        if len(alike) == 1:
            continue
        fixed = refined(graph, singled_out(colouring, node))
        total *= sum(
            other == node or can_map(graph, fixed, refined(graph, singled_out(colouring, other)))
            for other in alike
        )
        colouring = fixed
    return total


def singled_out(colouring: Colouring, vertex: int) -> Colouring:
    return [2 * colour + (v == vertex) for v, colour in enumerate(colouring)]


def refined(graph: Coloured, colouring: Colouring) -> Colouring:
    """Colours that tell apart whatever neighbours tell apart; numbered alike for alike graphs."""
    classes = len(set(colouring))
    while True:
        signatures = [
            (colouring[v], tuple(sorted((name, colouring[other]) for other, name in graph.arcs[v])))
            for v in range(len(colouring))
        ]
        numbers = {signature: i for i, signature in enumerate(sorted(set(signatures)))}
        colouring = [numbers[signature] for signature in signatures]
        if len(numbers) == classes:
            return colouring
        classes = len(numbers)


def can_map(graph: Coloured, ours: Colouring, theirs: Colouring) -> bool:
    """Whether some automorphism takes one colouring to the other."""
    if Counter(ours) != Counter(theirs):
        return False
    tied = [v for v in range(len(ours)) if ours.count(ours[v]) > 1]
    if not tied:
        place = {colour: v for v, colour in enumerate(theirs)}
        image = [place[colour] for colour in ours]
        return all(
            sorted((image[other], name) for other, name in graph.arcs[v]) == sorted(graph.arcs[image[v]])
            for v in range(len(image))
        )
    first = tied[0]
    fixed = refined(graph, singled_out(ours, first))
    return any(
        can_map(graph, fixed, refined(graph, singled_out(theirs, other)))
        for other in range(len(theirs))
        if theirs[other] == ours[first]
    )
