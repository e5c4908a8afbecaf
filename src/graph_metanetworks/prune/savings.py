"""Parameters and operations of a network, whole and pruned, from shapes alone."""

from __future__ import annotations

from math import prod

import torch

from graph_metanetworks.graph.parameter_graph import ParameterGraph
from graph_metanetworks.prune.program import recording_of
from graph_metanetworks.symmetry.subsets import Subset
from graph_metanetworks.trace.interpret.registry import functional_name

PRODUCTS = {"aten::mm": 0, "aten::bmm": 0, "aten::addmm": 1, "aten::baddbmm": 1, "aten::mv": 0}


def count_parameters(graph: ParameterGraph, subset: Subset) -> int:
    """Count the elements of parameters and buffers on edges that are left."""
    return sum(prod(subset.shape(graph.symmetry.parameters[p.name])) for p in graph.parameters)


def count_operations(graph: ParameterGraph, subset: Subset) -> int:
    """Count the multiplications of matrix products and convolutions that are left, for the example."""
    recording = recording_of(graph)
    total = 0
    for operation, axes in zip(recording.operations, recording.axes, strict=True):
        if operation.body or not isinstance(operation.func, torch._ops.OpOverload):
            continue
        name = functional_name(operation.func)
        if name == "aten::convolution":
            x, weight = axes.used[0], axes.used[1]
            # each position of the result (of the input, if transposed) meets one filter
            of = x if operation.arguments["transposed"] else axes.outputs[0]
            total += prod(subset.shape(of)) * prod(subset.shape(weight)[1:])
        elif name in PRODUCTS:
            first = axes.used[PRODUCTS[name]]
            total += prod(subset.shape(axes.outputs[0])) * subset.size(first[-1])
    return total
