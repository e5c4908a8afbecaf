"""Look up the node groups that an edge block joins."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from graph_metanetworks.graph.parts import EdgeBlock, NodeGroup


@dataclass(frozen=True)
class BlockEnds:
    """Look up the groups at either end of a block.

    >>> import torch, graph_metanetworks as gmn
    >>> graph = gmn.trace(torch.nn.Linear(3, 2), torch.randn(1, 3))
    >>> [(s.kind, t.kind) for block in graph.blocks for s, t in graph.block_ends.pairs(block)]
    [('input', 'output'), ('linear bias', 'output')]
    """

    groups: tuple[NodeGroup, ...]
    blocks: tuple[EdgeBlock, ...]

    def sources(self, block: EdgeBlock) -> list[NodeGroup]:
        return [self.groups[i] for i in np.unique(self._numbers(block.source))]

    def targets(self, block: EdgeBlock) -> list[NodeGroup]:
        return [self.groups[i] for i in np.unique(self._numbers(block.target))]

    def pairs(self, block: EdgeBlock) -> list[tuple[NodeGroup, NodeGroup]]:
        """Return the pairs of groups that an edge of the block joins, in order of source and target."""
        sources, targets = self.sources(block), self.targets(block)
        if len(sources) == 1 or len(targets) == 1:
            return [(source, target) for source in sources for target in targets]
        codes = self._numbers(block.source) * len(self.groups) + self._numbers(block.target)
        return [
            (self.groups[code // len(self.groups)], self.groups[code % len(self.groups)])
            for code in np.unique(codes)
        ]

    @cached_property
    def parameter_nodes(self) -> frozenset[NodeGroup]:
        """The single nodes that biases, scales, shifts and the like come from."""
        single = {g for g in self.groups if g.size == 1 and g.kind not in ("input", "output")}
        return frozenset(single.difference(*(self.targets(block) for block in self.blocks)))

    @cached_property
    def _group_of_node(self) -> NDArray[np.int64]:  # [N]
        sizes = [group.size for group in self.groups]
        return np.repeat(np.arange(len(sizes)), sizes)

    def _numbers(self, nodes: Tensor) -> NDArray[np.int64]:
        """Return the number of the group of each node."""
        return self._group_of_node[nodes.numpy()]
