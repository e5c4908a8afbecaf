"""Metanetworks: graph networks on parameter graphs."""

from graph_metanetworks.nn.bundles import BundleEncoder, BundlePassing
from graph_metanetworks.nn.canonical import Canonical
from graph_metanetworks.nn.editor import Editor
from graph_metanetworks.nn.encoders import EdgeEncoder, NodeEncoder
from graph_metanetworks.nn.grit import Grit, GritBlock
from graph_metanetworks.nn.group_readout import MeanByGroup
from graph_metanetworks.nn.matrix_product import MatrixProduct, WeightMatrices
from graph_metanetworks.nn.message_passing import MessagePassing
from graph_metanetworks.nn.metanetwork import GraphMetanetwork
from graph_metanetworks.nn.probes import Probes, ProbeSignals
from graph_metanetworks.nn.pyg_block import PygBlock
from graph_metanetworks.nn.random_walk import RandomWalkEncoder
from graph_metanetworks.nn.readouts import (
    AttentionPooling,
    EachEdge,
    EachNode,
    Edit,
    FromEnds,
    MeanByKind,
    MeanEdges,
    MeanNodes,
    PooledEdges,
    Readout,
)
from graph_metanetworks.nn.state import Links, State
from graph_metanetworks.nn.tensor_readout import MeanByTensor
from graph_metanetworks.nn.unary import UnaryEncoder
from graph_metanetworks.nn.updates import EdgeUpdate, GlobalUpdate, NodeUpdate
from graph_metanetworks.nn.vocabulary import UnknownKind, Vocabulary

__all__ = [
    "AttentionPooling",
    "BundleEncoder",
    "BundlePassing",
    "Canonical",
    "EachEdge",
    "EachNode",
    "EdgeEncoder",
    "EdgeUpdate",
    "Edit",
    "Editor",
    "FromEnds",
    "GlobalUpdate",
    "GraphMetanetwork",
    "Grit",
    "GritBlock",
    "Links",
    "MatrixProduct",
    "MeanByGroup",
    "MeanByKind",
    "MeanByTensor",
    "MeanEdges",
    "MeanNodes",
    "MessagePassing",
    "NodeEncoder",
    "NodeUpdate",
    "PooledEdges",
    "ProbeSignals",
    "Probes",
    "PygBlock",
    "RandomWalkEncoder",
    "Readout",
    "State",
    "UnaryEncoder",
    "UnknownKind",
    "Vocabulary",
    "WeightMatrices",
]
