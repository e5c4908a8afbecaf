"""Networks that are plain chains: their weights layer by layer, and the way back to edges.

Letters in shapes: n networks of a stack, B networks and E edges of a batch, c channels. A layer has `out` and
`in` neurons, and `taps` weights for each pair of them: the taps of a kernel, or the positions that a flatten
puts into a dense layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from graph_metanetworks.errors import UnsupportedNetwork
from graph_metanetworks.graph.batch import Batch, Stack
from graph_metanetworks.graph.parameter_graph import ParameterGraph
from graph_metanetworks.graph.parts import EdgeBlock, NodeGroup
from graph_metanetworks.graph.vocabulary import BIAS_KINDS

WEIGHT_KINDS = ("linear weight", "convolution weight")


@dataclass(frozen=True, eq=False)
class Layer:
    """A linear or convolution layer of a chain, as edge blocks of a graph."""

    outputs: int
    inputs: int
    taps: int
    weight: int  # the number of its block
    bias: int | None
    weight_order: Tensor | None  # the edge of each (output, input, tap); None if the block has this order
    bias_order: Tensor | None  # the edge of each output


@dataclass(frozen=True, eq=False)
class Chain:
    """The layers of a network, first to last; the outputs of each are the inputs of the next.

    >>> import torch, graph_metanetworks as gmn
    >>> model = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.Conv2d(4, 2, 3))
    >>> batch = gmn.collate([(gmn.trace(model, torch.zeros(1, 1, 8, 8)), model.state_dict())] * 5)
    >>> chain = chain_of(batch.stacks[0], batch, "nfn")
    >>> [weight.shape for weight in chain.weights(batch.stacks[0])]
    [torch.Size([5, 4, 1, 9]), torch.Size([5, 2, 4, 9])]
    """

    layers: tuple[Layer, ...]

    def weights(self, stack: Stack) -> list[Tensor]:
        """Return the weights of each layer, `[n, out, in, taps * c]`."""
        return [
            _read(stack, layer.weight, layer.weight_order).reshape(
                len(stack.members), layer.outputs, layer.inputs, -1
            )
            for layer in self.layers
        ]

    def biases(self, stack: Stack) -> list[Tensor | None]:
        """Return the biases of each layer, `[n, out, c]`, or None for a layer without."""
        return [
            None if layer.bias is None else _read(stack, layer.bias, layer.bias_order)
            for layer in self.layers
        ]

    def edges(self, weights: Sequence[Tensor], biases: Sequence[Tensor | None]) -> Tensor:
        """Return values of weights and biases in the order of the graph's edges; the inverse of both.

        `[n, out, in, taps * c]` and `[n, out, c]` of each layer -> `[n, edges of one network, c]`
        """
        blocks: dict[int, Tensor] = {}
        for layer, weight, bias in zip(self.layers, weights, biases, strict=True):
            edges = layer.outputs * layer.inputs * layer.taps
            blocks[layer.weight] = _write(weight.reshape(len(weight), edges, -1), layer.weight_order)
            if layer.bias is not None:
                assert bias is not None
                blocks[layer.bias] = _write(bias, layer.bias_order)
        return torch.cat([blocks[number] for number in sorted(blocks)], dim=1)


def _read(stack: Stack, block: int, order: Tensor | None) -> Tensor:  # [n, edges, c]
    values = stack.block_values(block)
    values = values.reshape(len(values), -1, values.shape[-1])
    return values if order is None else values[:, order.to(values.device)]


def _write(values: Tensor, order: Tensor | None) -> Tensor:
    return values if order is None else values[:, order.argsort().to(values.device)]


def join_stacks(batch: Batch, parts: Sequence[Tensor]) -> Tensor:
    """Join results of each stack, `[n, ...]`, in the order of the batch.

    Results of whole networks `[n, k]` give `[B, k]`, and those of edges `[n, edges, c]` give `[E, c]`.
    """
    if len(parts) == 1:  # a single stack has the networks in order
        return parts[0] if parts[0].dim() == 2 else parts[0].flatten(0, 1)
    rows = {
        member: row
        for stack, part in zip(batch.stacks, parts, strict=True)
        for member, row in zip(stack.members, part, strict=True)
    }
    ordered = [rows[member] for member in range(len(batch))]
    return torch.stack(ordered) if parts[0].dim() == 2 else torch.cat(ordered)


# ------------------------------------------------------------------ from graphs to chains

_CHAINS: WeakKeyDictionary[ParameterGraph, Chain | str] = WeakKeyDictionary()


def chain_of(stack: Stack, batch: Batch, method: str) -> Chain:
    """Return the chain that the networks of a stack are, or raise `UnsupportedNetwork`: they are none."""
    graph = stack.graph
    if graph not in _CHAINS:
        try:
            _CHAINS[graph] = _chain(graph)
        except _NotAChain as reason:
            _CHAINS[graph] = str(reason)
    found = _CHAINS[graph]
    if isinstance(found, str):
        raise UnsupportedNetwork(
            f"{method} takes plain chains of linear and convolution layers, but "
            f"{batch.names[stack.members[0]]} has {found}. The method gmn takes any network."
        )
    return found


class _NotAChain(Exception):
    """What a network has that a chain has not."""


def _chain(graph: ParameterGraph) -> Chain:
    weights: dict[NodeGroup, tuple[int, NodeGroup]] = {}  # by group of inputs: a block and its outputs
    biases: dict[NodeGroup, int] = {}
    for number, block in enumerate(graph.blocks):
        source, target = _ends(graph, block)
        if block.kind in WEIGHT_KINDS:
            if source in weights:
                raise _NotAChain(
                    f"two layers on the same inputs, {_parameters(graph, weights[source][0], number)}"
                )
            weights[source] = number, target
        elif target in biases:
            raise _NotAChain(f"two biases of the same neurons, {_parameters(graph, biases[target], number)}")
        else:
            biases[target] = number
    targets = [target for _, target in weights.values()]
    starts = [source for source in weights if source not in targets]
    if len(starts) != 1 or len(set(targets)) < len(targets):
        raise _NotAChain("branches that do not follow one another")
    layers, source = [], starts[0]
    while source in weights:
        number, target = weights[source]
        layers.append(_layer(graph, number, biases.pop(target, None), source, target))
        source = target
    if biases:
        raise _NotAChain(f"a bias that belongs to no layer, {_parameters(graph, *biases.values())}")
    return Chain(tuple(layers))


def _ends(graph: ParameterGraph, block: EdgeBlock) -> tuple[NodeGroup, NodeGroup]:
    """Return the groups that a weight or bias joins; all other blocks are refused."""
    pairs = graph.block_ends.pairs(block)
    where = f" at '{block.path}'" if block.path else ""
    if block.parameter is None:
        raise _NotAChain(f"a '{block.kind}' connection{where} without parameters")
    if block.kind not in (*WEIGHT_KINDS, *BIAS_KINDS):
        raise _NotAChain(f"a {block.kind} ('{block.parameter}'){where}")
    if not block.is_owner:
        raise _NotAChain(f"a parameter that is used twice, '{block.parameter}'")
    if len(pairs) != 1:
        raise _NotAChain(f"a parameter between several groups of neurons, '{block.parameter}'")
    return pairs[0]


def _layer(
    graph: ParameterGraph, weight: int, bias: int | None, source: NodeGroup, target: NodeGroup
) -> Layer:
    block = graph.blocks[weight]
    outputs = (block.target - target.start).expand(block.shape).reshape(-1)
    inputs = (block.source - source.start).expand(block.shape).reshape(-1)
    order, taps = _order(outputs * source.size + inputs, target.size * source.size)
    if taps == 0:
        raise _NotAChain(f"a layer whose outputs do not have all inputs, '{block.parameter}'")
    bias_order = None
    if bias is not None:
        block = graph.blocks[bias]
        units = (block.target - target.start).expand(block.shape).reshape(-1)
        bias_order, found = _order(units, target.size)
        if found != 1:
            raise _NotAChain(f"a bias that is not one number per output, '{block.parameter}'")
    return Layer(target.size, source.size, taps, weight, bias, order, bias_order)


def _order(place: Tensor, places: int) -> tuple[Tensor | None, int]:
    """Sort edges by place; None if they are sorted. Also return how many share a place, 0 if that varies."""
    counts = place.bincount(minlength=places)
    count = int(counts[0]) if bool((counts == counts[0]).all()) else 0
    order = place.argsort(stable=True)
    return (None if torch.equal(order, torch.arange(len(place))) else order), count


def _parameters(graph: ParameterGraph, *blocks: int) -> str:
    return ", ".join(f"'{graph.blocks[number].parameter}'" for number in blocks)
