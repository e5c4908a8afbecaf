"""Oracles that every parameter graph and every metanetwork must satisfy. Use them on your own networks.

>>> import torch, graph_metanetworks as gmn
>>> model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
>>> graph = gmn.testing.assert_all(model, torch.randn(5, 3))
>>> gmn.testing.assert_equivariant(gmn.GraphMetanetwork(hidden=16, layers=2).double(), graph, model)
"""

from __future__ import annotations

from typing import Any

from torch import nn

from graph_metanetworks.graph.parameter_graph import ParameterGraph
from graph_metanetworks.testing.automorphism import assert_automorphism
from graph_metanetworks.testing.function import KeepDouble, assert_function_kept
from graph_metanetworks.testing.metanetworks import assert_equivariant
from graph_metanetworks.testing.operations import assert_operations_equivariant
from graph_metanetworks.testing.replay import assert_runs
from graph_metanetworks.testing.weights import assert_covers, assert_round_trip
from graph_metanetworks.trace.tracer import Tracer

__all__ = [
    "KeepDouble",
    "assert_all",
    "assert_automorphism",
    "assert_covers",
    "assert_equivariant",
    "assert_function_kept",
    "assert_operations_equivariant",
    "assert_round_trip",
    "assert_runs",
]


def assert_all(model: nn.Module, /, *args: Any, **kwargs: Any) -> ParameterGraph:
    """Trace a network, check its graph against every oracle, and return the graph.

    `assert_runs` is left out if the graph says that it cannot run itself.
    """
    tracer = Tracer()
    graph = tracer.trace(model, *args, **kwargs)
    assert_covers(graph, model)
    assert_round_trip(graph, model)
    assert_automorphism(graph, model)
    assert_function_kept(graph, model, *args, **kwargs)
    assert_operations_equivariant(model, *args, **kwargs)
    if graph.recording is not None and not graph.recording.refusal:
        assert_runs(graph, model, *args, **kwargs)
    return graph
