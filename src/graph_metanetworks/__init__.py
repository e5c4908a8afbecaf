"""Graph metanetworks: neural networks as graphs, and graph networks that process them."""

from graph_metanetworks import nn, testing, zoo
from graph_metanetworks.batch import Batch, collate
from graph_metanetworks.computation_graph.build import computation_graph
from graph_metanetworks.computation_graph.graph import ComputationGraph
from graph_metanetworks.errors import (
    StateDictMismatch,
    TaskError,
    TooLarge,
    TraceError,
    UnsupportedOperation,
    UnusedParameters,
    ZooError,
)
from graph_metanetworks.graph import EdgeBlock, NodeGroup, ParameterGraph
from graph_metanetworks.nn.metanetwork import GraphMetanetwork
from graph_metanetworks.symmetry.align import Alignment, align, interpolate
from graph_metanetworks.symmetry.automorphism import Automorphism
from graph_metanetworks.symmetry.canonical import canonicalize
from graph_metanetworks.symmetry.group import Symmetry
from graph_metanetworks.symmetry.scaling import Rescaling, Scaling
from graph_metanetworks.trace.declare import Declaration, declare
from graph_metanetworks.trace.registry import remove_rule, rule
from graph_metanetworks.trace.tracer import Tracer, trace
from graph_metanetworks.zoo import Zoo

__version__ = "0.1.0"

__all__ = [
    "Alignment",
    "Automorphism",
    "Batch",
    "ComputationGraph",
    "Declaration",
    "EdgeBlock",
    "GraphMetanetwork",
    "NodeGroup",
    "ParameterGraph",
    "Rescaling",
    "Scaling",
    "StateDictMismatch",
    "Symmetry",
    "TaskError",
    "TooLarge",
    "TraceError",
    "Tracer",
    "UnsupportedOperation",
    "UnusedParameters",
    "Zoo",
    "ZooError",
    "align",
    "canonicalize",
    "collate",
    "computation_graph",
    "declare",
    "interpolate",
    "nn",
    "remove_rule",
    "rule",
    "testing",
    "trace",
    "zoo",
]
