"""The parameter graph: structure only; weights stay in state dicts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import torch
from torch import Tensor, nn

from graph_metanetworks.errors import StateDictMismatch, TraceError
from graph_metanetworks.extras import optional_imports
from graph_metanetworks.graph.block_ends import BlockEnds
from graph_metanetworks.graph.parts import (
    MAX_POSITIONS,
    EdgeBlock,
    NodeGroup,
    Parameter,
    block_position,
    group_index,
)
from graph_metanetworks.graph.summary import summary, summary_html
from graph_metanetworks.plot import plot

if TYPE_CHECKING:
    from torch_geometric.data import Data

    from graph_metanetworks.graph.vocabulary import Vocabulary
    from graph_metanetworks.plot.picture import Picture
    from graph_metanetworks.symmetry.group import Symmetry
    from graph_metanetworks.symmetry.scaling import Scaling
    from graph_metanetworks.trace.replay import Recording


@dataclass(frozen=True, eq=False, repr=False)
class ParameterGraph:
    """A network's neurons as nodes and its parameters as edges; made by `gmn.trace`.

    >>> import torch, graph_metanetworks as gmn
    >>> model = torch.nn.Linear(3, 2)
    >>> graph = gmn.trace(model, torch.randn(1, 3))
    >>> graph.num_nodes, graph.num_edges          # 3 inputs, 2 outputs, a bias node; 6 weights, 2 biases
    (6, 8)
    >>> values = graph.edge_values(model.state_dict())                       # [8]
    >>> all(torch.equal(model.state_dict()[k], v) for k, v in graph.state_dict(values).items())
    True
    """

    groups: tuple[NodeGroup, ...]
    blocks: tuple[EdgeBlock, ...]
    parameters: tuple[Parameter, ...]
    symmetry: Symmetry
    ignored: frozenset[str] = frozenset()  # state dict entries without edges: counters, unused buffers
    unseen: frozenset[str] = frozenset()  # those on which the output may depend: integer weights, masks
    notes: tuple[str, ...] = ()  # what the tracer could not understand and therefore pinned
    node_head: Tensor | None = None  # [N] head of each attention node (-1: none), with heads="index"
    name: str = field(default="network")
    recording: Recording | None = None  # the operations, for `run` and `scaling`

    # -------------------------------------------------------------- sizes

    @property
    def num_nodes(self) -> int:
        """Nodes of all groups."""
        return sum(group.size for group in self.groups)

    @property
    def num_edges(self) -> int:
        """Edges of all blocks, including structural ones and aliases."""
        return sum(block.num_edges for block in self.blocks)

    @property
    def num_parameters(self) -> int:
        """Elements of parameters and buffers that are owned by an edge."""
        return sum(block.num_edges for block in self.blocks if block.parameter and block.is_owner)

    @cached_property
    def edge_slices(self) -> tuple[slice, ...]:
        """Where each block lies in the edge order."""
        slices, start = [], 0
        for block in self.blocks:
            slices.append(slice(start, start + block.num_edges))
            start += block.num_edges
        return tuple(slices)

    @cached_property
    def block_ends(self) -> BlockEnds:
        """Which node groups each block joins."""
        return BlockEnds(self.groups, self.blocks)

    # -------------------------------------------------------------- values

    def edge_values(self, *state_dicts: Mapping[str, Tensor]) -> Tensor:
        """Return one value per edge, `[E]`.

        Several state dicts (weights, gradients, ...) give `[E, channels]`.

        Entries may carry one trailing channel dimension, as `state_dict` returns them for `[E, channels]`.
        """
        if not state_dicts:
            raise StateDictMismatch("edge_values needs a state dict: graph.edge_values(model.state_dict()).")
        state_dict, *others = state_dicts
        if others:
            return torch.stack([self.edge_values(one) for one in state_dicts], dim=-1)
        values = self.checked(state_dict)
        first = values[self.parameters[0].name]
        channels = first.shape[len(self.parameters[0].shape) :]
        dtype = first.dtype
        for value in values.values():
            dtype = torch.promote_types(dtype, value.dtype)
        edges = torch.ones((self.num_edges, *channels), dtype=dtype, device=first.device)
        shapes = {parameter.name: parameter.numel for parameter in self.parameters}
        for block, where in zip(self.blocks, self.edge_slices, strict=True):
            if block.parameter and block.elements:
                flat = values[block.parameter].reshape(shapes[block.parameter], *channels)
                edges[where] = block.elements.read(flat).to(dtype)
        return edges

    def state_dict(self, edge_values: Tensor, like: Mapping[str, Tensor] | None = None) -> dict[str, Tensor]:
        """Return the weights on edges as a state dict; the inverse of `edge_values`, bit for bit.

        Entries that lie on no edge (integers, unused buffers) are copied from `like` if it is given.
        """
        if edge_values.dim() not in (1, 2) or edge_values.shape[0] != self.num_edges:
            raise StateDictMismatch(
                f"edge values of shape {tuple(edge_values.shape)} do not fit this graph: expected "
                f"[{self.num_edges}] or [{self.num_edges}, channels], as graph.edge_values gives."
            )
        channels = edge_values.shape[1:]
        values = {}
        for parameter in self.parameters:
            values[parameter.name] = edge_values.new_empty(
                (parameter.numel, *channels), dtype=parameter.dtype
            )
        for block, where in zip(self.blocks, self.edge_slices, strict=True):
            if block.parameter and block.is_owner and block.elements:
                target = values[block.parameter]
                block.elements.write(target, edge_values[where].to(target.dtype))
        result = {}
        for parameter in self.parameters:
            shaped = values[parameter.name].reshape((*parameter.shape, *channels))
            result.update({name: shaped for name in (parameter.name, *parameter.tied)})
        kept = {} if like is None else {name: like[name] for name in self.ignored if name in like}
        return result | kept

    def checked(self, state_dict: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Check that a state dict fits; return the entries that lie on edges."""
        if not isinstance(state_dict, Mapping):
            raise StateDictMismatch(
                f"expected a state dict, not {type(state_dict).__name__}; pass model.state_dict()."
            )
        known = {name for p in self.parameters for name in (p.name, *p.tied)}
        missing = sorted(p.name for p in self.parameters if p.name not in state_dict)
        extra = sorted(set(state_dict) - known - self.ignored)
        if missing or extra:
            raise StateDictMismatch(
                f"the state dict does not belong to this graph of {self.name}"
                + (f"; missing: {', '.join(missing[:8])}" if missing else "")
                + (f"; not in the graph: {', '.join(extra[:8])}" if extra else "")
                + ". Pass the state dict of the traced architecture, or trace this network again."
            )
        values: dict[str, Tensor] = {}
        channels: torch.Size | None = None
        for parameter in self.parameters:
            value = state_dict[parameter.name]
            if not isinstance(value, Tensor):
                raise StateDictMismatch(
                    f"'{parameter.name}' is a {type(value).__name__}, not a tensor of {self.name}. Pass "
                    "model.state_dict()."
                )
            own = value.shape[len(parameter.shape) :]
            channels = own if channels is None else channels
            fits = tuple(value.shape[: len(parameter.shape)]) == parameter.shape
            if not fits or own != channels or len(own) > 1:
                raise StateDictMismatch(
                    f"'{parameter.name}' has shape {tuple(value.shape)}, but the graph of "
                    f"{self.name} was traced with {parameter.shape}. Trace this network again, or "
                    "pass weights of the traced shape (with one trailing channel dimension on all)."
                )
            values[parameter.name] = value
        return values

    # -------------------------------------------------------------- symmetries beyond permutations

    @cached_property
    def scaling(self) -> Scaling:
        """Scales, signs and phases of units that leave the function unchanged; computed on first use."""
        return self._recorded().scaling(self.symmetry)

    @cached_property
    def frequencies(self) -> Mapping[str, Tensor]:
        """The frequency of each element of the biases that only sines read, by name; 0 without a phase.

        >>> import torch, graph_metanetworks as gmn
        >>> class Sine(torch.nn.Linear):
        ...     def forward(self, x):
        ...         return torch.sin(30 * super().forward(x))
        >>> graph = gmn.trace(torch.nn.Sequential(Sine(2, 3), torch.nn.Linear(3, 1)), torch.zeros(1, 2))
        >>> {name: frequency.tolist() for name, frequency in graph.frequencies.items()}
        {'0.bias': [30.0, 30.0, 30.0]}
        """
        return {} if self.recording is None else self.recording.frequencies()

    # -------------------------------------------------------------- running the network

    def run(self, state_dict: Mapping[str, Tensor], /, *args: Any, **kwargs: Any) -> Any:
        """Run the network with the given weights, without its module; other arguments as for `gmn.trace`.

        >>> import torch, graph_metanetworks as gmn
        >>> model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
        >>> x = torch.randn(1, 3)
        >>> graph = gmn.trace(model, x)
        >>> torch.allclose(graph.run(model.state_dict(), x), model(x))
        True

        The recorded operations are run again, so inputs have the shapes of the example. Return the output, or
        a tuple if there are several. Gradients flow to weights and inputs, and `torch.func.vmap` runs it on
        stacked weights or on many inputs. A network that cannot be run again raises a `gmn.ReplayError`.
        """
        outputs, _ = self._run(state_dict, args, kwargs, read=False)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def activity(self, state_dict: Mapping[str, Tensor], /, *args: Any, **kwargs: Any) -> Tensor:
        """Return the mean and the standard deviation of each node's activations over all positions. [N, 2]

        Arguments as for `run`. Rows of nodes that no tensor shows are zero; `shown_nodes` says which.

        >>> import torch, graph_metanetworks as gmn
        >>> model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
        >>> graph = gmn.trace(model, torch.randn(1, 3))
        >>> graph.activity(model.state_dict(), torch.randn(1, 3)).shape
        torch.Size([11, 2])
        >>> [group.kind for group in graph.groups if graph.shown_nodes[group.start]]
        ['input', 'neuron', 'output']
        """
        _, statistics = self._run(state_dict, args, kwargs, read=True)
        return statistics

    @property
    def shown_nodes(self) -> Tensor:
        """Which nodes `activity` shows: inputs, neurons and outputs, but not nodes of parameters. [N]"""
        return self._recorded().program.readings.known

    def with_module(self, model: nn.Module) -> ParameterGraph:
        """Return a graph that runs this module instead of the recorded operations.

        This is for networks that `run` refuses. The graph then holds the module. `activity` shows no node.
        """
        return replace(self, recording=replace(self._recorded(), module=model))

    def _run(
        self, state_dict: Mapping[str, Tensor], args: tuple, kwargs: dict[str, Any], *, read: bool
    ) -> Any:
        recording = self._recorded()
        weights = self.checked(state_dict)
        first = self.parameters[0]
        if weights[first.name].dim() > len(first.shape):
            raise StateDictMismatch(
                f"'{first.name}' has a trailing dimension of channels, but a network has one set of weights. "
                "Run each channel on its own."
            )
        return recording.run(state_dict, recording.matched(args, kwargs), read=read)

    def _recorded(self) -> Recording:
        if self.recording is None:
            raise TraceError("this graph was not traced from a network. Trace one with gmn.trace.")
        return self.recording

    # -------------------------------------------------------------- features of nodes

    def _per_node(self, values: list[int]) -> Tensor:
        sizes = torch.tensor([group.size for group in self.groups], device="cpu")
        return torch.tensor(values, device="cpu").repeat_interleave(sizes)

    @cached_property
    def node_kinds(self) -> tuple[str, ...]:
        """Names that the integers of `node_kind` stand for."""
        return tuple(sorted({group.kind for group in self.groups}))

    @cached_property
    def edge_kinds(self) -> tuple[str, ...]:
        """Names that the integers of `edge_kind` stand for."""
        return tuple(sorted({block.kind for block in self.blocks}))

    @cached_property
    def activations(self) -> tuple[str, ...]:
        """Names that the integers of `node_activation` and `edge_activation` stand for; "" is none."""
        return tuple(sorted({group.activation for group in self.groups} | {""}))

    @cached_property
    def node_kind(self) -> Tensor:
        """Kind of each node, as an index into `node_kinds`. [N]"""
        return self._per_node([self.node_kinds.index(group.kind) for group in self.groups])

    @cached_property
    def node_depth(self) -> Tensor:
        """Longest path from an input to each node. [N]"""
        return self._per_node([group.depth for group in self.groups])

    @cached_property
    def node_activation(self) -> Tensor:
        """Activation function of each node, as an index into `activations`. [N]"""
        return self._per_node([self.activations.index(group.activation) for group in self.groups])

    @cached_property
    def node_index(self) -> Tensor:
        """Index of input, output, vocabulary and place nodes within their group; -1 where nodes are permuted.

        For hidden nodes that are permuted along one axis only (heads, but not the rotary dimensions within a
        head), it is the index along the other axes. [N]
        """
        return torch.cat([group_index(group) for group in self.groups])

    # -------------------------------------------------------------- features of edges

    @property
    def edge_index(self) -> Tensor:
        """The explicit edge list, computed on every access. [2, E]"""
        index = torch.empty((2, self.num_edges), dtype=torch.int64, device="cpu")
        for block, where in zip(self.blocks, self.edge_slices, strict=True):
            index[0, where] = block.source.expand(block.shape).reshape(-1)
            index[1, where] = block.target.expand(block.shape).reshape(-1)
        return index

    @property
    def edge_kind(self) -> Tensor:
        """Kind of each edge, as an index into `edge_kinds`. [E]"""
        kinds = torch.tensor([self.edge_kinds.index(b.kind) for b in self.blocks], device="cpu")
        counts = torch.tensor([b.num_edges for b in self.blocks], device="cpu")
        return kinds.repeat_interleave(counts)

    @property
    def edge_position(self) -> Tensor:
        """Kernel offset, grid coordinate or basis element, from the centre, normalised by size. [E, 3]"""
        position = torch.zeros((self.num_edges, MAX_POSITIONS), device="cpu")
        for block, where in zip(self.blocks, self.edge_slices, strict=True):
            if block.positions:
                position[where] = block_position(block)
        return position

    @property
    def edge_depth(self) -> Tensor:
        """Depth of each edge's source. [E]"""
        return self._along_blocks("source", self.node_depth)

    @property
    def edge_activation(self) -> Tensor:
        """Activation function of each edge's target. [E]"""
        return self._along_blocks("target", self.node_activation)

    def _along_blocks(self, end: str, feature: Tensor) -> Tensor:
        """Read a node feature at the given end of every edge."""
        values = torch.empty(self.num_edges, dtype=torch.int64, device="cpu")
        for block, where in zip(self.blocks, self.edge_slices, strict=True):
            values[where] = feature[getattr(block, end)].expand(block.shape).reshape(-1)
        return values

    # -------------------------------------------------------------- for people and other libraries

    def to_pyg(self, *state_dicts: Mapping[str, Tensor], vocabulary: Vocabulary | None = None) -> Data:
        """Return a `torch_geometric.data.Data` with the weights of the given state dicts on its edges.

        Kinds are numbered alike for all architectures, by `vocabulary`, so any graphs can be batched.
        """
        with optional_imports():  # it imports torch_geometric
            from graph_metanetworks.graph.pyg import to_pyg
        return to_pyg(self, *state_dicts, vocabulary=vocabulary)

    @overload
    def plot(self, path: str | Path, **options: Any) -> Path: ...
    @overload
    def plot(self, path: None = None, **options: Any) -> Picture: ...

    def plot(self, path: str | Path | None = None, **options: Any) -> Path | Picture:
        """Draw the graph to a file: every neuron for a small network, node groups for a large one.

        Without a path, return a picture, which notebooks show inline as SVG. Options are those of
        `graph_metanetworks.plot.plot`.
        """
        return plot(self, path, **options)

    def summary(self) -> str:
        """Return node groups, edge blocks, kinds and symmetry as text tables."""
        return summary(self)

    def __repr__(self) -> str:
        return (
            f"ParameterGraph({self.name}: {self.num_nodes:,} nodes, {self.num_edges:,} edges, "
            f"{self.num_parameters:,} parameters)"
        )

    def _repr_html_(self) -> str:
        return summary_html(self)
