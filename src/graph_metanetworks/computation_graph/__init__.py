"""Computation graphs: the weight-sharing DAGs of the paper's appendix B, for small feed-forward networks."""

from graph_metanetworks.computation_graph.build import computation_graph
from graph_metanetworks.computation_graph.graph import ComputationGraph, Layer, Pointwise
from graph_metanetworks.computation_graph.lifting import Lifting, NoProjection
from graph_metanetworks.computation_graph.search import AutomorphismGroup

__all__ = [
    "AutomorphismGroup",
    "ComputationGraph",
    "Layer",
    "Lifting",
    "NoProjection",
    "Pointwise",
    "computation_graph",
]
