"""The weights of a small zoo in memory, stacked by architecture: batches are made without reading files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from graph_metanetworks.graph.batch import Batch, Stack
from graph_metanetworks.graph.parameter_graph import ParameterGraph
from graph_metanetworks.zoo.zoo import Zoo


@dataclass(frozen=True, eq=False)
class Resident:
    """The networks of a zoo, one tensor for each parameter of each architecture."""

    graphs: Sequence[ParameterGraph]
    architectures: np.ndarray  # [N]
    rows: np.ndarray  # [N] the row of each network among those of its architecture
    weights: Sequence[Mapping[str, Tensor]]  # by architecture and name: [networks, elements]
    finite: np.ndarray  # [N] which networks have finite weights only

    @staticmethod
    def read(zoo: Zoo, graphs: Sequence[ParameterGraph], architectures: np.ndarray) -> Resident:
        rows, finite = np.zeros(len(zoo), dtype=np.int64), np.zeros(len(zoo), dtype=bool)
        parts: list[dict[str, list[Tensor]]] = [{p.name: [] for p in graph.parameters} for graph in graphs]
        seen = Counter[int]()
        for position, network in enumerate(zoo):
            state_dict, number = network.state_dict, int(architectures[position])
            rows[position] = seen[number]
            seen[number] += 1
            finite[position] = is_finite(state_dict)
            for name, value in graphs[number].checked(state_dict).items():
                parts[number][name].append(value.reshape(-1))
        weights = [{name: torch.stack(own) for name, own in part.items()} for part in parts]
        return Resident(graphs, architectures, rows, weights, finite)

    def batch(self, positions: Sequence[int], names: Sequence[str]) -> Batch:
        """Make a batch as `collate` does."""
        members: dict[int, list[int]] = {}
        for member, position in enumerate(positions):
            members.setdefault(int(self.architectures[position]), []).append(member)
        stacks = [self._stack(number, own, positions) for number, own in members.items()]
        return Batch(tuple(stacks), tuple(names))

    def _stack(self, number: int, members: Sequence[int], positions: Sequence[int]) -> Stack:
        rows = torch.from_numpy(self.rows[[positions[member] for member in members]])
        weights = {name: own[rows].t().unsqueeze(-1) for name, own in self.weights[number].items()}
        return Stack(self.graphs[number], tuple(members), weights)


def is_finite(state_dict: Mapping[str, Tensor]) -> bool:
    """Whether all weights are finite."""
    # a sum in float64 finds NaN and infinity without a temporary as large as the tensor
    return all(bool(x.sum(dtype=torch.float64).isfinite()) for x in state_dict.values())
