"""Graph metanetworks: neural networks as graphs, and graph networks that process them."""

from graph_metanetworks import nn, testing
from graph_metanetworks.batch import Batch, collate
from graph_metanetworks.errors import (
    StateDictMismatch,
    TraceError,
    UnsupportedOperation,
    UnusedParameters,
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

__version__ = "0.1.0"

__all__ = [
    "Alignment",
    "Automorphism",
    "Batch",
    "Declaration",
    "EdgeBlock",
    "GraphMetanetwork",
    "NodeGroup",
    "ParameterGraph",
    "Rescaling",
    "Scaling",
    "StateDictMismatch",
    "Symmetry",
    "TraceError",
    "Tracer",
    "UnsupportedOperation",
    "UnusedParameters",
    "align",
    "canonicalize",
    "collate",
    "declare",
    "interpolate",
    "nn",
    "remove_rule",
    "rule",
    "testing",
    "trace",
]
