"""Describe a parameter graph and its symmetry as plain data, for other programs."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from graph_metanetworks.graph.parameter_graph import ParameterGraph

if TYPE_CHECKING:
    from graph_metanetworks.symmetry.factors import Factor, Fixed


def describe(graph: ParameterGraph) -> dict[str, Any]:
    """Return groups, blocks, parameters, counts and symmetry as lists and dicts for `json.dumps`.

    Blocks and free axes refer to node groups by their number.

    >>> import torch, graph_metanetworks as gmn
    >>> data = describe(gmn.trace(torch.nn.Linear(3, 2), torch.randn(1, 3)))
    >>> data["counts"]
    {'nodes': 6, 'edges': 8, 'parameters': 8, 'structural_edges': 0}
    >>> data["blocks"][0]["parameter"], data["blocks"][0]["sources"], data["blocks"][0]["targets"]
    ('weight', [0], [1])
    """
    ends = graph.block_ends
    number = {group: index for index, group in enumerate(graph.groups)}
    return {
        "name": graph.name,
        "counts": {
            "nodes": graph.num_nodes,
            "edges": graph.num_edges,
            "parameters": graph.num_parameters,
            "structural_edges": sum(block.num_edges for block in graph.blocks if block.parameter is None),
        },
        "groups": [asdict(group) for group in graph.groups],
        "blocks": [
            {
                "parameter": block.parameter,
                "kind": block.kind,
                "shape": list(block.shape),
                "sources": [number[group] for group in ends.sources(block)],
                "targets": [number[group] for group in ends.targets(block)],
                "is_owner": block.is_owner,
                "positions": list(block.positions),
                "path": block.path,
            }
            for block in graph.blocks
        ],
        "parameters": [
            {
                "name": parameter.name,
                "shape": list(parameter.shape),
                "dtype": str(parameter.dtype).removeprefix("torch."),
                "tied": list(parameter.tied),
            }
            for parameter in graph.parameters
        ],
        "symmetry": {
            "log_order": graph.symmetry.log_order,
            "free_axes": [
                {"size": axis.size, "copies": axis.copies, "groups": [number[group] for group in axis.groups]}
                for axis in graph.symmetry.factors
            ],
        },
        "ignored": sorted(graph.ignored),
        "unseen": sorted(graph.unseen),
        "notes": list(graph.notes),
    }


def describe_symmetry(graph: ParameterGraph) -> dict[str, Any]:
    """Return what may be permuted, scaled or change sign, and what is fixed and why, for `json.dumps`.

    `within` refers to the heads or groups in which something is permuted, by their number in `permuted`.

    >>> import torch, graph_metanetworks as gmn
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
    >>> data = describe_symmetry(gmn.trace(model, torch.randn(1, 2)))
    >>> data["permuted"][0]["size"], data["permuted"][0]["parameters"][0], data["scaling"]["scales"]
    (3, {'name': '0.weight', 'dimension': 0}, 3)
    """
    symmetry, scaling = graph.symmetry, graph.scaling
    number = {factor: index for index, factor in enumerate(symmetry.factors)}
    return {
        "name": graph.name,
        "log_order": symmetry.log_order,
        "order": symmetry.order_text,
        "permuted": [
            {
                "size": factor.size,
                "copies": factor.copies,
                "kind": factor.kind,
                "within": [number[outer] for outer in factor.within],
                **_members(factor),
            }
            for factor in symmetry.factors
        ],
        "fixed": [{"reason": fixed.reason, **_members(fixed)} for fixed in symmetry.fixed],
        "scaling": {
            "scales": scaling.num_scales,
            "signs": scaling.num_signs,
            "phases": scaling.num_phases,
            "parameters": [
                {"name": name, "dimension": dimension, "kinds": kinds}
                for name, dimension, kinds in scaling.along()
            ],
        },
    }


def _members(own: Factor | Fixed) -> dict[str, Any]:
    return {
        "groups": [group.name for group in own.groups],
        "parameters": [{"name": name, "dimension": dimension} for name, dimension in own.parameters],
    }
