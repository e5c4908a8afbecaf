"""Graph metanetworks: neural networks as graphs, and graph networks that process them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from graph_metanetworks import nn, testing
from graph_metanetworks._version import __version__ as __version__
from graph_metanetworks.checkpoints.read import read_checkpoint
from graph_metanetworks.computation_graph.build import computation_graph
from graph_metanetworks.computation_graph.graph import ComputationGraph
from graph_metanetworks.errors import (
    CheckpointError,
    PruneError,
    ReplayError,
    StateDictMismatch,
    StorageError,
    TaskError,
    TooLarge,
    TraceError,
    UnsupportedNetwork,
    UnsupportedOperation,
    UnusedParameters,
    ZooError,
)
from graph_metanetworks.extras import MissingExtra, optional_imports
from graph_metanetworks.graph.batch import Batch, collate
from graph_metanetworks.graph.parameter_graph import ParameterGraph
from graph_metanetworks.graph.parts import EdgeBlock, NodeGroup
from graph_metanetworks.nn.metanetwork import GraphMetanetwork
from graph_metanetworks.prune.api import prune
from graph_metanetworks.prune.folder import load_pruned, save_pruned
from graph_metanetworks.prune.plan import PrunePlan, prune_plan
from graph_metanetworks.symmetry.align import Alignment, align, interpolate
from graph_metanetworks.symmetry.automorphism import Automorphism
from graph_metanetworks.symmetry.canonical import canonicalize
from graph_metanetworks.symmetry.group import Symmetry
from graph_metanetworks.symmetry.scaling import Rescaling, Scaling
from graph_metanetworks.trace.interpret.declare import Declaration, declare
from graph_metanetworks.trace.interpret.registry import remove_rule, rule
from graph_metanetworks.trace.tracer import Tracer, trace

if TYPE_CHECKING:
    from graph_metanetworks import zoo
    from graph_metanetworks.tasks.api import train
    from graph_metanetworks.tasks.loading import load
    from graph_metanetworks.zoo import Zoo

# Names that need an extra, or seconds to import: looked up when they are first used.
LAZY = {
    "Zoo": "graph_metanetworks.zoo:Zoo",
    "load": "graph_metanetworks.tasks.loading:load",
    "train": "graph_metanetworks.tasks.api:train",
    "zoo": "graph_metanetworks.zoo",
}


def __getattr__(name: str) -> Any:
    if name not in LAZY:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    module, _, attribute = LAZY[name].partition(":")
    with optional_imports():
        found = import_module(module)
    globals()[name] = getattr(found, attribute) if attribute else found
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *LAZY})


__all__ = [
    "Alignment",
    "Automorphism",
    "Batch",
    "CheckpointError",
    "ComputationGraph",
    "Declaration",
    "EdgeBlock",
    "GraphMetanetwork",
    "MissingExtra",
    "NodeGroup",
    "ParameterGraph",
    "PruneError",
    "PrunePlan",
    "ReplayError",
    "Rescaling",
    "Scaling",
    "StateDictMismatch",
    "StorageError",
    "Symmetry",
    "TaskError",
    "TooLarge",
    "TraceError",
    "Tracer",
    "UnsupportedNetwork",
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
    "load",
    "load_pruned",
    "nn",
    "prune",
    "prune_plan",
    "read_checkpoint",
    "remove_rule",
    "rule",
    "save_pruned",
    "testing",
    "trace",
    "train",
    "zoo",
]
