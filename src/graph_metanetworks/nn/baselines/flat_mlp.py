"""An MLP on the flat vector of weights."""

from __future__ import annotations

from typing import ClassVar, Literal
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from graph_metanetworks.graph.batch import Batch
from graph_metanetworks.graph.parameter_graph import ParameterGraph
from graph_metanetworks.nn.baselines.chain import join_stacks
from graph_metanetworks.nn.baselines.one_architecture import OneArchitecture, width_within
from graph_metanetworks.nn.mlp import Mlp


class FlatMlp(OneArchitecture):
    """An MLP on all weights of a network as one vector, standardized tensor by tensor.

    It takes networks of one architecture, and has no symmetry: each neuron has its place. At edge level the
    last layer has an output for each weight; edges without a weight get zeros.

    >>> import torch, graph_metanetworks as gmn
    >>> model = torch.nn.Linear(3, 2)
    >>> batch = gmn.collate([(gmn.trace(model, torch.zeros(1, 3)), model.state_dict())] * 4)
    >>> mlp = FlatMlp(16, level="edge")
    >>> mlp.fit([batch])
    >>> mlp(batch).shape
    torch.Size([32, 1])

    Args:
        hidden: width of both hidden layers; by default as wide as gives about `budget` parameters.
        out: width of the result.
        level: "graph" `[B, out]` or "edge" `[E, out]`.
    """

    method: ClassVar[str] = "mlp"
    first: nn.Linear

    def __init__(
        self,
        hidden: int | None = None,
        out: int = 1,
        *,
        level: Literal["graph", "edge"] = "graph",
        budget: int = 50_000,
    ) -> None:
        super().__init__()
        self.hidden, self.out, self.level, self.budget = hidden, out, level, budget

    def make_layers(self) -> dict[str, nn.Module]:
        out = self.out * (self.elements if self.level == "edge" else 1)
        hidden = self.hidden or width_within(self.budget, 1, self.elements + out + 2)
        first = nn.Linear(self.elements, hidden)
        nn.init.normal_(first.weight, std=(2 / self.elements) ** 0.5)
        return {"first": first, "head": Mlp(hidden, hidden, out)}

    def forward(self, batch: Batch) -> Tensor:
        batch = self.standardized(batch)
        vectors = [torch.cat([x[..., 0] for x in stack.weights.values()]).t() for stack in batch.stacks]
        results = self.head(self.first(join_stacks(batch, vectors)).relu())
        if self.level == "graph":
            return results
        by_weight = results.unflatten(1, (-1, self.out))  # [B, elements, out]
        by_weight = torch.cat([by_weight, torch.zeros_like(by_weight[:, :1])], dim=1)
        parts = [
            by_weight[list(stack.members)][:, _elements(stack.graph).to(results.device)]
            for stack in batch.stacks
        ]
        return join_stacks(batch, parts)


_ELEMENTS: WeakKeyDictionary[ParameterGraph, Tensor] = WeakKeyDictionary()


def _elements(graph: ParameterGraph) -> Tensor:
    """Return the weight of each edge, numbered through all tensors; the last number for those without. [E]"""
    if graph not in _ELEMENTS:
        first, total = {}, 0
        for parameter in graph.parameters:
            first[parameter.name] = total
            total += parameter.numel
        parts = []
        for block in graph.blocks:
            if block.parameter is None or block.elements is None:
                parts.append(torch.full((block.num_edges,), total))
            else:
                parts.append(first[block.parameter] + block.elements.index().reshape(-1))
        _ELEMENTS[graph] = torch.cat(parts)
    return _ELEMENTS[graph]
