"""Batches of networks: any mix of architectures, with their weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor, nn

from graph_metanetworks.errors import StateDictMismatch
from graph_metanetworks.graph.elements import Elements, contiguous_strides
from graph_metanetworks.graph.parameter_graph import ParameterGraph

StateDict = Mapping[str, Tensor]


@dataclass(frozen=True, eq=False, repr=False)
class Stack:
    """Networks of one architecture, with their weights stacked in one tensor per parameter."""

    graph: ParameterGraph
    members: tuple[int, ...]  # the positions of these networks in the batch
    weights: Mapping[str, Tensor]  # [elements, networks, channels] by name

    def __repr__(self) -> str:
        return f"Stack({self.graph.name}, networks={len(self.members)}, tensors={len(self.weights)})"

    def block_values(self, block: int) -> Tensor:
        """Return the values on a block's edges, `[networks, *shape, channels]`; 1 on structural edges."""
        edges = self.graph.blocks[block]
        if edges.parameter is None or edges.elements is None:
            like = next(iter(self.weights.values()))
            return like.new_ones(()).expand(len(self.members), *edges.shape, like.shape[-1])
        return edges.elements.view(self.weights[edges.parameter]).movedim(-2, 0)

    def named_weights(self) -> dict[str, Tensor]:
        """Return weights in the shapes of a state dict, the first channel: `[networks, *shape]` by name."""
        weights = {}
        for parameter in self.graph.parameters:
            flat = self.weights[parameter.name][..., 0]  # [elements, networks]
            own = flat.T.reshape(len(self.members), *parameter.shape)
            weights |= dict.fromkeys((parameter.name, *parameter.tied), own)
        return weights

    def with_edges(self, values: Tensor) -> Stack:
        """Return the same networks with other weights, given on their edges, `[networks, edges, channels]`.

        Weights are views where the edges of a block are all of a parameter in its order. Gradients flow.
        """
        owned: dict[str, list[tuple[Elements, Tensor]]] = {}
        for block, where in zip(self.graph.blocks, self.graph.edge_slices, strict=True):
            if block.parameter and block.is_owner and block.elements is not None:
                own = values[:, where].movedim(0, 1)  # [edges of the block, networks, channels]
                owned.setdefault(block.parameter, []).append((block.elements, own))
        weights = {p.name: _assembled(p.numel, owned[p.name]) for p in self.graph.parameters}
        return replace(self, weights=weights)


@dataclass(frozen=True, eq=False, repr=False)
class Batch:
    """The input of a metanetwork, made by `gmn.collate`. Nodes and edges are numbered network by network."""

    stacks: tuple[Stack, ...]
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        return (
            f"Batch(networks={len(self):,}, architectures={len(self.stacks):,}, nodes={self.num_nodes:,}, "
            f"edges={self.num_edges:,}, channels={self.channels}, dtype={self.dtype}, device='{self.device}')"
        )

    @cached_property
    def graphs(self) -> tuple[ParameterGraph, ...]:
        """The graph of each network, in the order of the batch."""
        graphs = {member: stack.graph for stack in self.stacks for member in stack.members}
        return tuple(graphs[member] for member in range(len(self)))

    @cached_property
    def node_starts(self) -> tuple[int, ...]:
        """The first node of each network, and the number of all nodes."""
        return tuple(accumulate((graph.num_nodes for graph in self.graphs), initial=0))

    @cached_property
    def edge_starts(self) -> tuple[int, ...]:
        """The first edge of each network, and the number of all edges."""
        return tuple(accumulate((graph.num_edges for graph in self.graphs), initial=0))

    @property
    def num_nodes(self) -> int:
        return self.node_starts[-1]

    @property
    def num_edges(self) -> int:
        return self.edge_starts[-1]

    @property
    def channels(self) -> int:
        """Numbers on each edge: 1 for weights, 2 for weights and gradients, ..."""
        return next(iter(self.stacks[0].weights.values())).shape[-1]

    @property
    def dtype(self) -> torch.dtype:
        return next(iter(self.stacks[0].weights.values())).dtype

    @property
    def device(self) -> torch.device:
        return next(iter(self.stacks[0].weights.values())).device

    def to(self, *args, **kwargs) -> Batch:
        """Move the batch to another device or dtype; arguments as for `Tensor.to`."""
        return replace(
            self, stacks=tuple(_map(stack, lambda t: t.to(*args, **kwargs)) for stack in self.stacks)
        )

    def pin_memory(self) -> Batch:
        return replace(self, stacks=tuple(_map(stack, Tensor.pin_memory) for stack in self.stacks))

    def split_nodes(self, nodes: Tensor) -> list[Tensor]:
        """Split a node-level result `[N, k]` into one tensor per network."""
        return list(nodes.split([graph.num_nodes for graph in self.graphs]))

    def split_edges(self, edges: Tensor) -> list[Tensor]:
        """Split an edge-level result `[E, k]` into one tensor per network."""
        return list(edges.split([graph.num_edges for graph in self.graphs]))

    def stacked(self, edges: Tensor) -> Batch:
        """Return the same networks with an edge-level result `[E]` or `[E, k]` as their weights.

        Unlike `state_dicts` it makes no tensor for each network, so an edited batch can be run at once:

        >>> import torch, graph_metanetworks as gmn
        >>> model = torch.nn.Linear(3, 2)
        >>> batch = gmn.collate([(gmn.trace(model, torch.zeros(1, 3)), model.state_dict())] * 4)
        >>> doubled = batch.stacked(torch.full((batch.num_edges,), 2.0))
        >>> doubled.stacks[0].weights["weight"].shape          # elements, networks, channels
        torch.Size([6, 4, 1])
        """
        if edges.dim() not in (1, 2) or len(edges) != self.num_edges:
            raise StateDictMismatch(
                f"edge values of shape {tuple(edges.shape)} do not fit this batch: expected "
                f"[{self.num_edges}] or [{self.num_edges}, channels], one row per edge."
            )
        values = edges[:, None] if edges.dim() == 1 else edges
        stacks = tuple(stack.with_edges(self._edges_of(stack, values)) for stack in self.stacks)
        return replace(self, stacks=stacks)

    def _edges_of(self, stack: Stack, values: Tensor) -> Tensor:
        """Return the values on the edges of the networks of a stack. [E, k] -> [networks, edges, k]"""
        if len(stack.members) == len(self):  # in the order of the batch
            return values.view(len(self), -1, values.shape[1])
        own = values.split([graph.num_edges for graph in self.graphs])
        return torch.stack([own[member] for member in stack.members])

    def state_dicts(self, edges: Tensor, like: Sequence[StateDict] | None = None) -> list[dict[str, Tensor]]:
        """Turn an edge-level result `[E]` or `[E, k]` into one state dict per network; `k = 1` is dropped.

        Entries that are on no edge, such as counters of batch norms, are copied from `like`, which has one
        state dict per network.
        """
        edges = edges.squeeze(-1) if edges.dim() == 2 and edges.shape[-1] == 1 else edges
        others = like or [None] * len(self)
        parts = zip(self.graphs, self.split_edges(edges), others, strict=True)
        return [graph.state_dict(values, other) for graph, values, other in parts]


def _assembled(size: int, parts: list[tuple[Elements, Tensor]]) -> Tensor:  # [size, networks, channels]
    """Put the values on the edges of its blocks into one parameter."""
    elements, values = parts[0]
    in_order = elements.listed is None and elements.strides == contiguous_strides(elements.shape)
    if in_order and elements.span() == (0, size):
        return values
    index = torch.cat([own.index().reshape(-1) for own, _ in parts]).to(values.device)
    joined = torch.cat([own for _, own in parts])
    return joined.new_zeros(size, *values.shape[1:]).index_copy(0, index, joined)


def _map(stack: Stack, function) -> Stack:
    return replace(stack, weights={name: function(value) for name, value in stack.weights.items()})


def collate(
    networks: Iterable[tuple[ParameterGraph, StateDict | Sequence[StateDict]]],
    *,
    names: Sequence[str] | None = None,
    allow_nonfinite: bool = False,
) -> Batch:
    """Join networks of any architectures into one batch; those that share a graph are stacked.

    >>> import torch, graph_metanetworks as gmn
    >>> small, large = torch.nn.Linear(3, 2), torch.nn.Linear(5, 4)
    >>> graphs = [gmn.trace(model, torch.randn(1, model.in_features)) for model in (small, large)]
    >>> batch = gmn.collate([(graphs[0], small.state_dict()), (graphs[1], large.state_dict())])
    >>> batch                                # 6 + 2 and 20 + 4 edges
    Batch(networks=2, architectures=2, nodes=16, edges=32, channels=1, dtype=torch.float32, device='cpu')

    Several state dicts of one network become channels: `(graph, [weights, gradients])`. `names` appear in
    error messages. Weights that are not finite raise an error unless `allow_nonfinite`.
    """
    networks = _pairs(networks)
    if not networks:
        raise StateDictMismatch("an empty batch: collate needs at least one (graph, state_dict) pair.")
    names = tuple(names or (f"network {i} ({graph.name})" for i, (graph, _) in enumerate(networks)))
    if len(names) != len(networks):
        raise ValueError(f"{len(names)} names for {len(networks)} networks: give one for each.")
    entries = [
        _entries(graph, weights, name, allow_nonfinite)
        for (graph, weights), name in zip(networks, names, strict=True)
    ]
    _check_same_channels(entries, names)
    by_graph: dict[int, list[int]] = {}
    for number, (graph, _) in enumerate(networks):
        by_graph.setdefault(id(graph), []).append(number)
    stacks = []
    for members in by_graph.values():
        weights = {
            name: torch.stack([entries[member][name] for member in members], dim=1)
            if len(members) > 1
            else entries[members[0]][name].unsqueeze(1)  # not copied: it may be mapped from a file
            for name in entries[members[0]]
        }
        stacks.append(Stack(networks[members[0]][0], tuple(members), weights))
    return Batch(tuple(stacks), names)


def _entries(
    graph: ParameterGraph, weights: StateDict | Sequence[StateDict], name: str, allow_nonfinite: bool
) -> dict[str, Tensor]:
    """Return the parameters of one network, `[elements, channels]` by name."""
    state_dicts = list(weights) if isinstance(weights, Sequence) else [weights]
    if not state_dicts:
        raise StateDictMismatch(f"{name}: an empty list of state dicts; pass (graph, model.state_dict()).")
    try:
        checked = [graph.checked(state_dict) for state_dict in state_dicts]
    except StateDictMismatch as error:
        raise StateDictMismatch(f"{name}: {error}") from None
    entries = {}
    for parameter in graph.parameters:
        channels = [state_dict[parameter.name].reshape(parameter.numel, -1) for state_dict in checked]
        value = channels[0] if len(channels) == 1 else torch.cat(channels, dim=1)
        # a sum in float64 finds NaN and infinity without a temporary as large as the tensor
        if not allow_nonfinite and not value.sum(dtype=torch.float64).isfinite():
            raise StateDictMismatch(
                f"{name}: '{parameter.name}' has weights that are NaN or infinite. Leave the network out, or "
                "pass allow_nonfinite=True to collate."
            )
        entries[parameter.name] = value
    return entries


def _check_same_channels(entries: list[dict[str, Tensor]], names: Sequence[str]) -> None:
    """Check that the networks of a batch agree in channels and device."""
    first = next(iter(entries[0].values()))
    for tensors, name in zip(entries, names, strict=True):
        for parameter, value in tensors.items():
            if value.shape[1] != first.shape[1]:
                raise StateDictMismatch(
                    f"{name}: '{parameter}' has {value.shape[1]} channels, but {names[0]} has "
                    f"{first.shape[1]}. Give every network of a batch the same state dicts."
                )
            if value.device != first.device:
                raise StateDictMismatch(
                    f"{name}: '{parameter}' is on {value.device}, but {names[0]} is on {first.device}. "
                    "Move the state dicts to one device, or collate on the CPU and move the batch."
                )


# ------------------------------------------------------------------ wrong types


def require_batch(value: object) -> None:
    """Raise a TypeError if a metanetwork was given anything but a batch; it shows what to write instead."""
    if isinstance(value, Batch):
        return
    remedy = f"metanetwork({_remedy(value)})"
    if isinstance(value, tuple | list) and value and isinstance(value[0], Batch):
        remedy = "batch, labels = item; metanetwork(batch)"
    raise TypeError(f"a metanetwork takes a batch of networks, not {_described(value)}. Write: {remedy}")


def _pairs(networks: Any) -> list[tuple[ParameterGraph, StateDict | Sequence[StateDict]]]:
    """Return networks as a list, or raise a TypeError that shows what to write instead."""
    single = isinstance(networks, nn.Module | ParameterGraph | Mapping | Batch | Tensor) or _is_pair(networks)
    if single or not isinstance(networks, Iterable):
        raise TypeError(
            f"collate takes a list of (graph, state_dict) pairs, not {_described(networks)}. "
            f"Write: {_remedy(networks)}"
        )
    pairs: list[Any] = list(networks)
    for number, item in enumerate(pairs):
        if not _is_pair(item):
            raise TypeError(
                f"collate takes a list of (graph, state_dict) pairs, but item {number} is "
                f"{_described(item)}. Write: {_remedy(item)}"
            )
    return pairs


def _is_pair(value: object) -> bool:
    return isinstance(value, tuple | list) and len(value) == 2 and isinstance(value[0], ParameterGraph)


def _described(value: object) -> str:
    name = _type_name(value)
    if isinstance(value, tuple | list):
        return name
    return f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"


def _type_name(value: object) -> str:
    """Return the name of a type; of tuples and lists, those of what they hold."""
    if not isinstance(value, tuple | list):
        return type(value).__name__
    parts = ", ".join([_type_name(part) for part in value[:3]] + ["..."] * (len(value) > 3))
    return f"({parts})" if isinstance(value, tuple) else f"[{parts}]"


def _remedy(value: object) -> str:
    """Return the line of code that collates what `value` seems to be."""
    parts = value if isinstance(value, tuple | list) else ()
    if _is_pair(value):
        return "gmn.collate([(graph, state_dict)])"
    if isinstance(value, Batch):
        return "metanetwork(batch), as it is collated already"
    if isinstance(value, ParameterGraph):
        return "gmn.collate([(graph, model.state_dict())])"
    if isinstance(value, Mapping):
        return "gmn.collate([(gmn.trace(model, example), state_dict)])"
    if len(parts) == 2 and _is_pair(parts[0]) and not _is_pair(parts[1]):
        return (
            "collate_fn=lambda items: (gmn.collate([pair for pair, _ in items]), "
            "torch.tensor([label for _, label in items]))"
        )
    if len(parts) == 3 and isinstance(parts[0], ParameterGraph):
        return (
            "collate_fn=lambda items: (gmn.collate([item[:2] for item in items]), "
            "torch.tensor([label for *_, label in items]))"
        )
    if parts and all(_is_pair(part) for part in parts):
        return "gmn.collate(pairs)"
    return "gmn.collate([(gmn.trace(model, example), model.state_dict())])"
