"""Graph metanetworks: neural networks as graphs, and graph networks that process them."""

from graph_metanetworks import nn, testing, zoo
from graph_metanetworks.batch import Batch, collate
from graph_metanetworks.errors import (
    StateDictMismatch,
    TaskError,
    TraceError,
    UnsupportedOperation,
    UnusedParameters,
    ZooError,
)
from graph_metanetworks.graph import EdgeBlock, NodeGroup, ParameterGraph
from graph_metanetworks.nn.metanetwork import GraphMetanetwork
from graph_metanetworks.symmetry.group import Automorphism, Symmetry
from graph_metanetworks.trace.declare import Declaration, declare
from graph_metanetworks.trace.registry import remove_rule, rule
from graph_metanetworks.trace.tracer import Tracer, trace
from graph_metanetworks.zoo import Zoo

__version__ = "0.1.0"

__all__ = [
    "Automorphism",
    "Batch",
    "Declaration",
    "EdgeBlock",
    "GraphMetanetwork",
    "NodeGroup",
    "ParameterGraph",
    "StateDictMismatch",
    "Symmetry",
    "TaskError",
    "TraceError",
    "Tracer",
    "UnsupportedOperation",
    "UnusedParameters",
    "Zoo",
    "ZooError",
    "collate",
    "declare",
    "nn",
    "remove_rule",
    "rule",
    "testing",
    "trace",
    "zoo",
]
