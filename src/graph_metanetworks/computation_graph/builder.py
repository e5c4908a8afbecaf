"""Collect nodes and edges, with labels that map positions of tensors to nodes.

A label is an integer tensor of the same shape as its tensor. Views of a tensor have views of its label, so a
write through one of them is seen through the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from graph_metanetworks.computation_graph.graph import IDENTITY, Kind, Layer, Pointwise, first_elements
from graph_metanetworks.graph.parts import Parameter

NOTHING = -1  # the label of a zero without a neuron, such as padding
FIRST_ELEMENT = -2  # element e of the parameters, laid end to end, has the label -2 - e


def element_labels(elements: Tensor) -> Tensor:
    """Convert elements to labels, or labels to elements: the map is its own inverse."""
    return FIRST_ELEMENT - elements


def holds_nodes(label: Tensor) -> bool:
    return bool((label >= 0).any())


def holds_elements(label: Tensor) -> bool:
    return bool((label <= FIRST_ELEMENT).any())


@dataclass(eq=False)
class EdgeList:
    """Edges by source, target and sharing class; classes below 0 are constants, `-1 - index`."""

    source: Tensor
    target: Tensor
    weight: Tensor

    @staticmethod
    def joined(parts: Sequence[EdgeList]) -> EdgeList:
        return EdgeList(
            *(torch.cat([getattr(part, end) for part in parts]) for end in ("source", "target", "weight"))
        )

    def kept(self, where: Tensor) -> EdgeList:
        return EdgeList(self.source[where], self.target[where], self.weight[where])


@dataclass(eq=False)
class ComputationGraphBuilder:
    """The layers, edges and constants found so far."""

    parameters: Sequence[Parameter]
    layers: list[Layer] = field(default_factory=list)
    parts: list[EdgeList] = field(default_factory=list)
    constants: dict[float, int] = field(default_factory=dict)

    @property
    def num_nodes(self) -> int:
        return self.layers[-1].nodes.stop if self.layers else 0

    def layer(self, name: str, kind: Kind, shape: Sequence[int], activation: Pointwise = IDENTITY) -> Tensor:
        """Add nodes and return them as the label of the tensor that they stand for."""
        made = Layer(name, kind, tuple(shape), self.num_nodes, activation)
        self.layers.append(made)
        return made.numbered()

    def join(self, targets: Tensor, sources: Tensor, weights: Tensor) -> None:
        """Add edges between labels that broadcast; `weights` are elements or constants."""
        ends = torch.broadcast_tensors(sources, targets, weights)
        source, target, weight = (end.reshape(-1) for end in ends)
        self.parts.append(EdgeList(source, target, weight).kept(source != NOTHING))

    def constant(self, values: Tensor | float) -> Tensor:
        """Return the classes of constants, one for each distinct value."""
        values = torch.as_tensor(values, dtype=torch.float64)
        numbers = [
            self.constants.setdefault(value, len(self.constants)) for value in values.reshape(-1).tolist()
        ]
        return -1 - torch.tensor(numbers).view(values.shape)

    def add_bias(self, targets: Tensor, elements: Tensor) -> None:
        """Add edges from a new bias node; a bias that is used twice has two."""
        first = int(elements.min())
        name = next(name for name, start in reversed(self.starts().items()) if start <= first)
        self.join(targets, self.layer(name, "bias", (1,)), elements)

    def starts(self) -> dict[str, int]:
        """Return the first element of each parameter when all are laid end to end."""
        return first_elements(self.parameters)

    def parameter_label(self, parameter: Parameter, strides: Sequence[int]) -> Tensor:
        """Return the label of a parameter, with its memory layout."""
        start = self.starts()[parameter.name]
        elements = torch.arange(start, start + parameter.numel).view(parameter.shape)
        label = torch.empty_strided(parameter.shape, tuple(strides), dtype=torch.int64)
        return label.copy_(element_labels(elements))
