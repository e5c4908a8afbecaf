"""Each architecture of the menagerie, traced once per test process."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import networkx as nx
import pytest
import torch
from torch import nn

import graph_metanetworks as gmn
from support.fingerprint import left_as_found
from support.menagerie import MENAGERIE, Architecture

BY_NAME = {architecture.name: architecture for architecture in MENAGERIE}
ONE_OF_EACH_FAMILY = tuple({architecture.family: architecture.name for architecture in MENAGERIE}.values())

every_architecture = pytest.mark.parametrize("name", BY_NAME)
one_of_each_family = pytest.mark.parametrize("name", ONE_OF_EACH_FAMILY)


def some_architectures(*further: str) -> pytest.MarkDecorator:
    """One architecture of each family, and further ones; the rest of the menagerie is slow."""
    chosen = {*ONE_OF_EACH_FAMILY, *further}
    marks = {name: () if name in chosen else pytest.mark.slow for name in BY_NAME}
    return pytest.mark.parametrize("name", [pytest.param(name, marks=mark) for name, mark in marks.items()])


@dataclass(frozen=True, eq=False)
class Traced:
    """A network of the menagerie with its example input and its graph."""

    model: nn.Module
    args: tuple
    kwargs: dict[str, Any]
    tracer: gmn.Tracer
    graph: gmn.ParameterGraph


@cache
def traced(name: str) -> Traced:
    architecture: Architecture = BY_NAME[name]
    model, args, kwargs = architecture.make()
    tracer = gmn.Tracer(**architecture.tracer)  # pyright: ignore[reportArgumentType]
    with left_as_found(model):
        graph = tracer.trace(model, *args, **kwargs)
    return Traced(model, args, kwargs, tracer, graph)


def sample(graph: gmn.ParameterGraph, seed: int = 0) -> gmn.Automorphism:
    return graph.symmetry.sample(torch.Generator().manual_seed(seed))


def assert_same_graph(first: gmn.ParameterGraph, second: gmn.ParameterGraph) -> None:
    """Two graphs agree in everything but identity: nodes, edges, names, and what the symmetry does."""
    assert first.groups == second.groups
    assert first.parameters == second.parameters
    assert (first.ignored, first.notes, first.name) == (second.ignored, second.notes, second.name)
    assert len(first.blocks) == len(second.blocks)
    for ours, theirs in zip(first.blocks, second.blocks, strict=True):
        for field in ("kind", "shape", "parameter", "is_owner", "positions", "path"):
            assert getattr(ours, field) == getattr(theirs, field), field
        assert torch.equal(ours.source, theirs.source)
        assert torch.equal(ours.target, theirs.target)
        if ours.elements is not None and theirs.elements is not None:
            assert torch.equal(ours.elements.index(), theirs.elements.index())
        else:
            assert ours.elements is theirs.elements is None
    assert first.symmetry.log_order == second.symmetry.log_order
    assert torch.equal(sample(first).nodes, sample(second).nodes)


def group_graph(graph: gmn.ParameterGraph) -> nx.DiGraph:
    """Which node group feeds which."""
    group_of = torch.repeat_interleave(
        torch.arange(len(graph.groups)), torch.tensor([group.size for group in graph.groups])
    )
    pairs = group_of[graph.edge_index].unique(dim=1).T.tolist()
    network = nx.DiGraph()
    network.add_nodes_from(range(len(graph.groups)))
    network.add_edges_from((source, target) for source, target in pairs if source != target)
    return network
