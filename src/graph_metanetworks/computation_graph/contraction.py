"""Merge a sum with the nonlinearity, residual edges or output that follows it.

Rules give every operation its own nodes: a linear layer, its ReLU, a residual sum. In the paper a neuron
is a weighted sum together with its nonlinearity. So a layer of plain sums is merged into the next layer if
each of its nodes is used exactly once, unscaled, by a different node.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from graph_metanetworks.computation_graph.builder import EdgeList
from graph_metanetworks.computation_graph.graph import IDENTITY, Layer


def contract(layers: list[Layer], edges: EdgeList, one: int) -> tuple[list[Layer], EdgeList]:
    """Merge layers as far as possible; `one` is the class of the constant 1. Node numbers stay."""
    layers = list(layers)
    while merger := _next_merger(layers, edges, one):
        layer, into = merger
        edges = _redirected(edges, layer, into)
        layers[layers.index(into)] = replace(into, name=layer.name)
        layers.remove(layer)
    return layers, edges


def renumbered(layers: list[Layer], edges: EdgeList) -> tuple[list[Layer], EdgeList]:
    """Number nodes layer by layer without gaps."""
    number = torch.full((max(layer.nodes.stop for layer in layers),), -1)
    found, start = [], 0
    for layer in layers:
        number[layer.nodes] = torch.arange(start, start + layer.size)
        found.append(replace(layer, start=start))
        start += layer.size
    return found, EdgeList(number[edges.source], number[edges.target], edges.weight)


def _next_merger(layers: list[Layer], edges: EdgeList, one: int) -> tuple[Layer, Layer] | None:
    """Return a layer of sums and the layer to merge it into.

    It must be the deepest of all that lead there. Parameter graphs, too, draw a residual edge from the
    shallower summand to the deeper one, and give sums of equally deep ones nodes of their own.
    """
    before = _layers_before(layers, edges)
    depths: dict[int, int] = {}
    for place in range(len(layers)):  # in the order in which they were computed, except for bias nodes
        depths[place] = max((depths.get(source, 0) + 1 for source in before[place]), default=0)
    for place, into in enumerate(layers):
        deepest = max((depths[source] for source in before[place]), default=0)
        chosen = [layers[source] for source in before[place] if depths[source] == deepest]
        if len(chosen) != 1 or not _feeds_only(chosen[0], into, edges, one):
            continue
        if _is_simple(_redirected(edges, chosen[0], into), into):
            return chosen[0], into
    return None


def _layers_before(layers: list[Layer], edges: EdgeList) -> list[list[int]]:
    """Return, for each layer, the indices of the layers with edges into it."""
    place = torch.full((max(layer.nodes.stop for layer in layers),), -1)
    for number, layer in enumerate(layers):
        place[layer.nodes] = number
    joined = torch.stack([place[edges.target], place[edges.source]], dim=1).unique(dim=0)
    before: list[list[int]] = [[] for _ in layers]
    for target, source in joined.tolist():
        before[target].append(source)
    return before


def _feeds_only(layer: Layer, into: Layer, edges: EdgeList, one: int) -> bool:
    if layer.kind != "hidden" or layer.activation != IDENTITY or layer.size != into.size or layer is into:
        return False
    out = edges.kept(_inside(edges.source, layer))
    return (
        len(out.source) == layer.size
        and bool((out.weight == one).all() and _inside(out.target, into).all())
        and len(out.source.unique()) == layer.size
        and len(out.target.unique()) == layer.size
    )


def _redirected(edges: EdgeList, layer: Layer, into: Layer) -> EdgeList:
    """Redirect edges into a layer to the next one."""
    leaving = _inside(edges.source, layer)
    goes = torch.arange(max(int(edges.target.max()), layer.nodes.stop) + 1)
    goes[edges.source[leaving]] = edges.target[leaving]
    rest = edges.kept(~leaving)
    return EdgeList(rest.source, goes[rest.target], rest.weight)


def _is_simple(edges: EdgeList, layer: Layer) -> bool:
    """Return whether no two edges lead from one node to the same node of a layer."""
    own = edges.kept(_inside(edges.target, layer))
    pairs = torch.stack([own.source, own.target], dim=1)
    return len(pairs.unique(dim=0)) == len(pairs)


def _inside(nodes: Tensor, layer: Layer) -> Tensor:
    return (nodes >= layer.nodes.start) & (nodes < layer.nodes.stop)
