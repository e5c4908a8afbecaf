"""The axes that a network's symmetries permute, and the neurons that lie along them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from math import lgamma, prod

from graph_metanetworks.graph import NodeGroup, ParameterGraph
from graph_metanetworks.symmetry.axes import Axis, parents, variables


@dataclass(frozen=True, slots=True)
class FreeAxis:
    size: int
    copies: int  # how many times it is permuted independently, such as once in each head
    groups: tuple[NodeGroup, ...]

    @property
    def log_order(self) -> float:
        """What the axis adds to `symmetry.log_order`."""
        return self.copies * lgamma(self.size + 1)


def free_axes(graph: ParameterGraph) -> list[FreeAxis]:
    """All free axes, those with the most permutations first.

    >>> import torch, graph_metanetworks as gmn
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
    >>> (axis,) = free_axes(gmn.trace(model, torch.randn(1, 2)))
    >>> axis.size, [group.name for group in axis.groups]
    (3, ['0'])
    """
    groups: dict[Axis, dict[NodeGroup, None]] = defaultdict(dict)
    for group, (_, dim) in zip(graph.groups, graph.symmetry.nodes, strict=True):
        for axis in variables(dim):
            groups[axis][group] = None
    found = [
        FreeAxis(axis.size, prod(parent.size for parent in parents(axis)), tuple(groups[axis]))
        for axis in graph.symmetry.variables
    ]
    return sorted(found, key=lambda axis: axis.log_order, reverse=True)
