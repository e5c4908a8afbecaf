"""Graph metanetworks: neural networks as graphs, and graph networks that process them."""

from graph_metanetworks import nn, testing
from graph_metanetworks.batch import Batch, collate
from graph_metanetworks.computation_graph.build import computation_graph
from graph_metanetworks.computation_graph.graph import ComputationGraph
from graph_metanetworks.errors import (
    StateDictMismatch,
    TooLarge,
    TraceError,
    UnsupportedOperation,
    UnusedParameters,
)
from graph_metanetworks.graph import EdgeBlock, NodeGroup, ParameterGraph
from graph_metanetworks.nn.metanetwork import GraphMetanetwork
from graph_metanetworks.symmetry.group import Automorphism, Symmetry
from graph_metanetworks.trace.declare import Declaration, declare
from graph_metanetworks.trace.registry import remove_rule, rule
from graph_metanetworks.trace.tracer import Tracer, trace

__version__ = "0.1.0"

__all__ = [
    "Automorphism",
    "Batch",
    "ComputationGraph",
    "Declaration",
    "EdgeBlock",
    "GraphMetanetwork",
    "NodeGroup",
    "ParameterGraph",
    "StateDictMismatch",
    "Symmetry",
    "TooLarge",
    "TraceError",
    "Tracer",
    "UnsupportedOperation",
    "UnusedParameters",
    "collate",
    "computation_graph",
    "declare",
    "nn",
    "remove_rule",
    "rule",
    "testing",
    "trace",
]
