"""Merge a sum with the nonlinearity, the residual edges or the output that it is for.

Rules give every operation nodes of its own: a linear layer, its ReLU, a residual sum. In the paper a neuron
is a weighted sum together with its nonlinearity. So a layer of plain sums goes into the layer that comes
next, if each of its nodes is used once, as it is, by a node of its own.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from graph_metanetworks.computation_graph.builder import Edges
from graph_metanetworks.computation_graph.graph import IDENTITY, Layer


def contract(layers: list[Layer], edges: Edges, one: int) -> tuple[list[Layer], Edges]:
    """Layers and edges after all mergers; `one` is the class of the constant 1. Node numbers stay."""
    layers = list(layers)
    merged = True
    while merged:
        merged = False
        for into in list(layers):
            first = _merges(layers, edges, into, one)
            if first is None:
                continue
            edges = _redirected(edges, first, into)
            layers[layers.index(into)] = replace(into, name=first.name)
            layers.remove(first)
            merged = True
    return layers, edges


def renumbered(layers: list[Layer], edges: Edges) -> tuple[list[Layer], Edges]:
    """Nodes numbered layer by layer without gaps."""
    number = torch.full((max(layer.nodes.stop for layer in layers),), -1)
    found, start = [], 0
    for layer in layers:
        number[layer.nodes] = torch.arange(start, start + layer.size)
        found.append(replace(layer, start=start))
        start += layer.size
    return found, Edges(number[edges.source], number[edges.target], edges.weight)


def _merges(layers: list[Layer], edges: Edges, into: Layer, one: int) -> Layer | None:
    """The layer of sums that goes into a layer: the deepest that leads there, as in parameter graphs."""
    before = edges.source[_inside(edges.target, into)]
    sources = [layer for layer in layers if bool(_inside(before, layer).any())]
    depths = _depths(layers, edges)
    deepest = max((depths[layer.start] for layer in sources), default=0)
    chosen = [layer for layer in sources if depths[layer.start] == deepest]
    if len(chosen) != 1 or not _feeds_only(chosen[0], into, edges, one):
        return None
    return chosen[0] if _is_simple(_redirected(edges, chosen[0], into), into) else None


def _feeds_only(layer: Layer, into: Layer, edges: Edges, one: int) -> bool:
    if layer.kind != "hidden" or layer.activation != IDENTITY or layer.size != into.size or layer is into:
        return False
    out = edges.kept(_inside(edges.source, layer))
    return (
        len(out.source) == layer.size
        and bool((out.weight == one).all() and _inside(out.target, into).all())
        and len(out.source.unique()) == layer.size
        and len(out.target.unique()) == layer.size
    )


def _redirected(edges: Edges, layer: Layer, into: Layer) -> Edges:
    """What led to a layer leads to the next one."""
    leaving = _inside(edges.source, layer)
    goes = torch.arange(max(int(edges.target.max()), layer.nodes.stop) + 1)
    goes[edges.source[leaving]] = edges.target[leaving]
    rest = edges.kept(~leaving)
    return Edges(rest.source, goes[rest.target], rest.weight)


def _is_simple(edges: Edges, layer: Layer) -> bool:
    """Whether no two edges lead from one node to the same node of a layer."""
    own = edges.kept(_inside(edges.target, layer))
    pairs = torch.stack([own.source, own.target], dim=1)
    return len(pairs.unique(dim=0)) == len(pairs)


def _inside(nodes: Tensor, layer: Layer) -> Tensor:
    return (nodes >= layer.nodes.start) & (nodes < layer.nodes.stop)


def _depths(layers: list[Layer], edges: Edges) -> dict[int, int]:
    """Longest path to each layer, by its first node. Layers come in the order in which they were computed."""
    depths: dict[int, int] = {}
    for layer in layers:
        before = edges.source[_inside(edges.target, layer)]
        found = [
            depths[one.start] for one in layers if one.start in depths and bool(_inside(before, one).any())
        ]
        depths[layer.start] = max(found, default=-1) + 1
    return depths
