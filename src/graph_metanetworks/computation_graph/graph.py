"""ComputationGraph: neurons as nodes, one edge for every use of a weight, and the recursion of appendix B."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from graph_metanetworks.computation_graph.conditions import Conditions
from graph_metanetworks.computation_graph.network import as_network
from graph_metanetworks.errors import StateDictMismatch
from graph_metanetworks.extras import optional_imports
from graph_metanetworks.graph.parts import Parameter

if TYPE_CHECKING:
    from graph_metanetworks.graph.parameter_graph import ParameterGraph

Kind = Literal["input", "hidden", "output", "bias"]


@dataclass(frozen=True)
class Pointwise:
    """A nonlinearity: a PyTorch operation with its further arguments."""

    name: str = ""  # "" is the identity
    function: Any = None
    args: tuple = ()
    kwargs: tuple[tuple[str, Any], ...] = ()

    def __call__(self, x: Tensor) -> Tensor:
        return x if self.function is None else self.function(x, *self.args, **dict(self.kwargs))


IDENTITY = Pointwise()


@dataclass(frozen=True)
class Layer:
    """Nodes that one operation made, in the order of the elements of its result; `name` is its module."""

    name: str
    kind: Kind
    shape: tuple[int, ...]
    start: int
    activation: Pointwise = IDENTITY

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def nodes(self) -> slice:
        """Where its nodes lie in the node order."""
        return slice(self.start, self.start + self.size)

    def numbered(self) -> Tensor:
        """Return the numbers of its nodes in the shape of the operation's result."""
        return torch.arange(self.start, self.start + self.size).view(self.shape)


def first_elements(parameters: Sequence[Parameter]) -> dict[str, int]:
    """Return the number of each parameter's first element when all are laid end to end."""
    ends = accumulate(parameter.numel for parameter in parameters)
    return {parameter.name: end - parameter.numel for parameter, end in zip(parameters, ends, strict=True)}


@dataclass(frozen=True, eq=False, repr=False)
class ComputationGraph:
    """A DAG whose nodes are neurons and whose edges are uses of weights; made by `gmn.computation_graph`.

    Nodes are numbered layer by layer, the inputs first. There is at most one edge from one node to another.
    Edges of one sharing class carry the same weight: class `c` below `num_parameters` is element `c` of the
    parameters laid end to end; the classes after those are constants, such as the 1 of a residual edge.

    >>> import torch, graph_metanetworks as gmn
    >>> convolution = torch.nn.Conv2d(1, 1, 2, stride=2, bias=False)
    >>> graph = gmn.computation_graph(convolution, (1, 1, 4, 4))          # figure 2 of the paper
    >>> graph.num_edges, graph.num_parameters
    (16, 4)
    >>> x = torch.randn(1, 1, 4, 4, dtype=torch.float64)
    >>> torch.allclose(graph.evaluate(x), convolution.double()(x))
    True
    """

    layers: tuple[Layer, ...]
    source: Tensor  # [E]
    target: Tensor  # [E]
    sharing: Tensor  # [E] class of each edge
    parameters: tuple[Parameter, ...]
    weights: Tensor  # [num_parameters] float64: the paper's theta, one number for each class
    constants: Tensor  # float64: values of the classes after those
    name: str = field(default="network")

    # -------------------------------------------------------------- sizes and features

    @property
    def num_nodes(self) -> int:
        return sum(layer.size for layer in self.layers)

    @property
    def num_edges(self) -> int:
        return len(self.source)

    @property
    def num_parameters(self) -> int:
        return len(self.weights)

    @property
    def input(self) -> Layer:
        return self.layers[0]

    @property
    def output(self) -> Layer:
        return self.layers[-1]

    def of_kind(self, *kinds: Kind) -> Tensor:
        """Return whether each node is of one of the kinds. [N]"""
        sizes = torch.tensor([layer.size for layer in self.layers])
        return torch.tensor([layer.kind in kinds for layer in self.layers]).repeat_interleave(sizes)

    @cached_property
    def node_layer(self) -> Tensor:
        """The number of each node's layer in `layers`. [N]"""
        sizes = torch.tensor([layer.size for layer in self.layers])
        return torch.arange(len(self.layers)).repeat_interleave(sizes)

    @cached_property
    def node_activation(self) -> Tensor:
        """A number for each node's nonlinearity, equal for equal nonlinearities. [N]"""
        kinds = list(dict.fromkeys(layer.activation for layer in self.layers))
        return torch.tensor([kinds.index(layer.activation) for layer in self.layers])[self.node_layer]

    @cached_property
    def node_depth(self) -> Tensor:
        """The paper's layer number: the longest path that leads to each node. [N]"""
        depth = torch.zeros(self.num_nodes, dtype=torch.int64)
        while True:
            deeper = depth.scatter_reduce(0, self.target, depth[self.source] + 1, "amax")
            if torch.equal(deeper, depth):
                return depth
            depth = deeper

    @property
    def edge_weights(self) -> Tensor:
        """The weight on each edge. [E]"""
        return torch.cat([self.weights, self.constants])[self.sharing]

    # -------------------------------------------------------------- the function

    def activations(self, x: Tensor) -> Tensor:
        """Compute the activation of each node by the recursion of appendix B: `[*input_shape] -> [N]`."""
        if tuple(x.shape) != self.input.shape:
            raise StateDictMismatch(
                f"the input has shape {tuple(x.shape)}, but the computation graph of {self.name} was made "
                f"for {self.input.shape}: its nodes are the elements of one input."
            )
        values = torch.zeros(self.num_nodes, dtype=torch.float64)
        values[self.input.nodes] = x.reshape(-1).double()
        values[self.of_kind("bias")] = 1
        weights = self.edge_weights
        for edges, layers in self._steps:
            sums = torch.zeros_like(values)
            sums.index_add_(0, self.target[edges], weights[edges] * values[self.source[edges]])
            for layer, nodes in layers:
                values[nodes] = layer.activation(sums[nodes])
        return values

    def evaluate(self, x: Tensor) -> Tensor:
        """Evaluate the network's function in float64."""
        return self.activations(x)[self.output.nodes].view(self.output.shape)

    @cached_property
    def _steps(self) -> list[tuple[Tensor, list[tuple[Layer, Tensor]]]]:
        """For each depth, the edges into it and the nodes of each layer at it."""
        depth, computed = self.node_depth, self.of_kind("hidden", "output")
        steps = []
        for level in range(int(depth.max()) + 1):
            here = computed & (depth == level)
            nodes = {
                int(k): (here & (self.node_layer == k)).nonzero()[:, 0]
                for k in self.node_layer[here].unique()
            }
            edges = (depth[self.target] == level).nonzero()[:, 0]
            steps.append((edges, [(self.layers[k], found) for k, found in nodes.items()]))
        return steps

    # -------------------------------------------------------------- weights

    def with_weights(self, state_dict: Mapping[str, Tensor]) -> ComputationGraph:
        """Return the same graph with other weights."""
        parts = []
        for parameter in self.parameters:
            value = state_dict.get(parameter.name)
            if value is None or tuple(value.shape) != parameter.shape:
                found = "is missing" if value is None else f"has shape {tuple(value.shape)}"
                raise StateDictMismatch(
                    f"'{parameter.name}' {found}, but this computation graph needs {parameter.shape}. Pass "
                    f"the state dict of a network like {self.name}."
                )
            parts.append(value.detach().double().reshape(-1))
        return replace(self, weights=torch.cat(parts))

    def state_dict(self) -> dict[str, Tensor]:
        """Return the weights by name, in the precision of the network."""
        values, found = self.tensors(), {}
        for parameter in self.parameters:
            value = values[parameter.name].to(parameter.dtype)
            found.update({name: value for name in (parameter.name, *parameter.tied)})
        return found

    def tensors(self) -> dict[str, Tensor]:
        """Return the weights by name in float64, tied ones once."""
        parts = self.weights.split([parameter.numel for parameter in self.parameters])
        return {p.name: part.view(p.shape) for p, part in zip(self.parameters, parts, strict=True)}

    def starts(self) -> dict[str, int]:
        """Return the first sharing class of each parameter."""
        return first_elements(self.parameters)

    # -------------------------------------------------------------- automorphisms

    @cached_property
    def conditions(self) -> Conditions:
        """The three conditions of a neural DAG automorphism, to be checked for many permutations at once."""
        return Conditions(self)

    def is_automorphism(self, permutation: Tensor) -> bool:
        """Return whether a permutation (node `i` goes to `permutation[i]`) is a neural DAG automorphism."""
        return not self.failed_conditions(permutation)

    def failed_conditions(self, permutation: Tensor) -> tuple[str, ...]:
        """Return which of "edges", "labels" and "sharing" (appendix B.2) a permutation of nodes violates."""
        return self.conditions.failed(permutation)

    def permuted(self, permutation: Tensor) -> ComputationGraph:
        """Return the network with its weights moved by an automorphism: the paper's Phi(theta)."""
        failed = self.failed_conditions(permutation)
        if failed:
            raise ValueError(
                f"this permutation is not an automorphism of {self.name}: it does not keep "
                f"{' and '.join(failed)}. Check permutations with graph.failed_conditions."
            )
        images = self.conditions.edge_images(permutation)
        moved = self.weights.clone()
        learned = self.sharing < self.num_parameters
        moved[self.sharing[images[learned]]] = self.weights[self.sharing[learned]]
        return replace(self, weights=moved)

    # -------------------------------------------------------------- for people and metanetworks

    def as_network(self) -> tuple[ParameterGraph, dict[str, Tensor]]:
        """Return the graph and its weights as metanetworks take them: `gmn.collate([graph.as_network()])`."""
        return as_network(self)

    def plot(self, path: str | Path) -> Path:
        """Draw the graph to a file; edges of one colour share a weight."""
        with optional_imports():  # it imports matplotlib
            from graph_metanetworks.plot.computation import draw_computation
        return draw_computation(self, path)

    def __repr__(self) -> str:
        return (
            f"ComputationGraph({self.name}: {self.num_nodes:,} nodes, {self.num_edges:,} edges, "
            f"{self.num_parameters:,} parameters)"
        )
