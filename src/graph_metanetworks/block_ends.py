"""Which node groups an edge block joins."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from graph_metanetworks.graph import EdgeBlock, NodeGroup, ParameterGraph


@dataclass(frozen=True)
class BlockEnds:
    """Look up the groups at either end of a block.

    >>> import torch, graph_metanetworks as gmn
    >>> graph = gmn.trace(torch.nn.Linear(3, 2), torch.randn(1, 3))
    >>> ends = BlockEnds(graph)
    >>> [(source.kind, target.kind) for block in graph.blocks for source, target in ends.pairs(block)]
    [('input', 'output'), ('linear bias', 'output')]
    """

    graph: ParameterGraph

    def sources(self, block: EdgeBlock) -> list[NodeGroup]:
        return self._groups(block.source)

    def targets(self, block: EdgeBlock) -> list[NodeGroup]:
        return self._groups(block.target)

    def pairs(self, block: EdgeBlock) -> list[tuple[NodeGroup, NodeGroup]]:
        """The pairs of groups that an edge of the block really joins, in order of source and target."""
        groups = self.graph.groups
        sources, targets = self._number(block.source), self._number(block.target)
        if len(sources.unique()) == 1 or len(targets.unique()) == 1:
            return [(groups[i], groups[j]) for i in sources.unique() for j in targets.unique()]
        codes = (sources * len(groups) + targets).unique().tolist()
        return [(groups[code // len(groups)], groups[code % len(groups)]) for code in codes]

    @cached_property
    def parameter_nodes(self) -> frozenset[NodeGroup]:
        """The single nodes that biases, scales, shifts and the like come from."""
        single = {g for g in self.graph.groups if g.size == 1 and g.kind not in ("input", "output")}
        return frozenset(single.difference(*(self.targets(block) for block in self.graph.blocks)))

    @cached_property
    def _starts(self) -> Tensor:
        return torch.tensor([group.start for group in self.graph.groups])

    def _number(self, nodes: Tensor) -> Tensor:
        return torch.bucketize(nodes.contiguous(), self._starts, right=True) - 1

    def _groups(self, nodes: Tensor) -> list[NodeGroup]:
        return [self.graph.groups[number] for number in self._number(nodes).unique()]
