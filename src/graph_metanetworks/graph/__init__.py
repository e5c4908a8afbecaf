"""The parameter graph: structure only; weights stay in state dicts."""

from graph_metanetworks.graph.batch import Batch, Stack, collate
from graph_metanetworks.graph.parameter_graph import ParameterGraph
from graph_metanetworks.graph.parts import EdgeBlock, NodeGroup, Parameter

__all__ = ["Batch", "EdgeBlock", "NodeGroup", "Parameter", "ParameterGraph", "Stack", "collate"]
