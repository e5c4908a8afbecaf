"""Run a metanetwork on a batch without an edge list: sweeps over panels, node updates between them.

The sweep of block `l` applies the edge update of block `l - 1` and sends the messages of block `l`. A last
sweep feeds the readout. The engine "blocks" keeps edge states from one sweep to the next. "stream" keeps
none: each sweep starts from the weights and recomputes all earlier updates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch._functorch.pyfunctorch import retrieve_all_functorch_interpreters

from graph_metanetworks.allocator import freed_memory_returned
from graph_metanetworks.graph.batch import Batch
from graph_metanetworks.nn.encoders import EdgeEncoder
from graph_metanetworks.nn.engine.panel import Panel, Region, arrange, rows, tiles
from graph_metanetworks.nn.engine.scratch import Scratch, scratch_buffer
from graph_metanetworks.nn.engine.sweep import (
    CellResult,
    Executor,
    Sweep,
    SweepResult,
    Terms,
    one_worker,
    run,
)
from graph_metanetworks.nn.engine.workers import Workers, torch_threads
from graph_metanetworks.nn.message_passing import MessagePassing, UpdatesEdges
from graph_metanetworks.nn.readouts import EachEdge, FromEnds, PooledEdges
from graph_metanetworks.nn.state import Links, State, degrees, node_network

if TYPE_CHECKING:
    from graph_metanetworks.nn.metanetwork import GraphMetanetwork


@dataclass(frozen=True)
class ExecutionPlan:
    """What differs between the engines."""

    keeps_edges: bool
    stacks_blocks: bool
    list_below: int  # edges: shapes that have fewer in all run as one list
    # numbers: if edge states have fewer, whole panels run at once and autograd keeps what it wants
    whole_panels_below: int
    piece_size: int  # numbers in the edge states of a piece
    regions: Callable[[tuple[int, ...], int], Iterator[Region]]  # how panels are cut into pieces
    executor: Executor


BLOCKS = ExecutionPlan(
    keeps_edges=True,
    stacks_blocks=True,
    list_below=1_000,
    whole_panels_below=1 << 23,
    piece_size=1 << 19,
    regions=rows,
    executor=torch_threads,
)
STREAM = ExecutionPlan(
    keeps_edges=False,
    stacks_blocks=False,
    list_below=1_000,
    whole_panels_below=0,
    piece_size=1 << 19,
    regions=tiles,
    executor=Workers(1),
)


def streaming(workers: int | None = None, progress: bool = False) -> ExecutionPlan:
    """Return the plan of the engine "stream" with one worker per core, or as many as given."""
    return replace(STREAM, executor=Workers(workers or torch.get_num_threads(), progress))


def run_on_panels(
    network: GraphMetanetwork, batch: Batch, engine: str, workers: int | None = None, progress: bool = False
) -> Tensor:
    """Run a metanetwork by the engine "blocks" or "stream"; workers and progress are for streams."""
    if engine == "blocks":
        return _run(network, batch, engine, BLOCKS)
    with freed_memory_returned():
        return _run(network, batch, engine, streaming(workers, progress))


def _run(network: GraphMetanetwork, batch: Batch, engine: str, plan: ExecutionPlan) -> Tensor:
    if network.matrices is not None:
        return _run_pairs(network, network.matrices, batch, engine, plan)
    return _run_panels(network, batch, plan)


def _run_panels(network: GraphMetanetwork, batch: Batch, plan: ExecutionPlan) -> Tensor:
    """Run a metanetwork whose blocks are all `MessagePassing`."""
    edges = _Edges.of(network, batch, plan)
    degree, owner = degrees(batch), node_network(batch)
    node_counts = owner.bincount(minlength=len(batch))[:, None]
    edge_counts = torch.tensor([graph.num_edges for graph in batch.graphs], device=batch.device)[:, None]
    nodes, links = network.encode(batch)
    features = network.first_globals(batch)
    for block in network.blocks:
        assert isinstance(block, MessagePassing)
        context = None if features is None else features[owner]
        sums = edges.send(block, block.message_terms(nodes, context))
        assert sums.nodes is not None
        messages = block.aggregated(sums.nodes, degree).to(nodes.dtype)  # sums of half precision are float32
        nodes = block.updated_nodes(nodes, messages, context)
        if features is not None and sums.pooled is not None:
            node_mean = torch.zeros_like(features).index_add(0, owner, nodes) / node_counts
            edge_mean = (block.edge_norm.weight * sums.pooled / edge_counts).to(features.dtype)
            features = block.updated_globals(features, node_mean, edge_mean)
            context = features[owner]
        if block.edge_update is not None:
            edges.pending.append((block, block.edge_terms(nodes, context)))
    return _read(network, edges, State(nodes, nodes[:0], features), links)


def _run_pairs(
    network: GraphMetanetwork, matrices: nn.Module, batch: Batch, engine: str, plan: ExecutionPlan
) -> Tensor:
    """Run a metanetwork whose blocks join pairs of neurons; edges get a state only where they are read."""
    nodes, links = network.encode(batch)
    executor = plan.executor if batch.device.type == "cpu" else one_worker
    panels = matrices(batch, engine, executor)
    for block in network.blocks:
        nodes = block(nodes, panels)
    state = State(nodes, nodes[:0])
    if isinstance(network.readout, FromEnds):
        return _read_ends(network.readout, nodes, batch, plan)
    if network.edge_pass is None:
        return network.readout(state, links)
    edges = _Edges.of(network, batch, plan)
    edges.pending.append((network.edge_pass, network.edge_pass.edge_terms(nodes, None)))
    return _read(network, edges, state, links)


def _read(network: GraphMetanetwork, edges: _Edges, state: State, links: Links) -> Tensor:
    """Apply pending updates and read out."""
    readout = network.readout
    if isinstance(readout, FromEnds):
        return _read_ends(readout, state.nodes, edges.batch, edges.plan)
    if isinstance(readout, PooledEdges):
        return readout.finish(edges.pool(readout).to(state.nodes.dtype), edges.batch)
    if isinstance(readout, EachEdge):
        return edges.each(readout)
    if readout.reads_edges:
        state = state._replace(edges=edges.states_in_order_of(links))
    return readout(state, links)


def _read_ends(readout: FromEnds, nodes: Tensor, batch: Batch, plan: ExecutionPlan) -> Tensor:
    """Return a readout's result on each edge, network by network, from weights and states of nodes."""
    panels = arrange(batch, list_below=plan.list_below, stacked=plan.stacks_blocks)
    sweep = Sweep(
        cell=lambda edges, ends, weights: CellResult(edges=readout.cell(edges, ends[0], weights)),
        panels=panels,
        segments=[panel.use for panel in panels],  # nothing is summed
        num_nodes=batch.num_nodes,
        num_segments=1,
        piece_size=max(1, plan.piece_size // readout.inner),
        regions=plan.regions,
        scratch=Scratch(),
        returns_edges=True,
        executor=plan.executor if batch.device.type == "cpu" else one_worker,
    )
    on_edges = [readout.encoder.terms(panel, batch) for panel in panels]
    whole_panels = _runs_whole_panels(plan, batch.num_edges * readout.inner)
    swept = run(sweep, on_edges, [readout.end_terms(nodes)], readout.weights(), whole_panels=whole_panels)
    assert swept.edges is not None
    return in_batch_order(panels, swept.edges)


def _runs_whole_panels(plan: ExecutionPlan, numbers: int) -> bool:
    """Whether a sweep over so many numbers runs whole panels; under `torch.func` it must."""
    if retrieve_all_functorch_interpreters():
        return True
    limit = plan.whole_panels_below if torch.is_grad_enabled() else plan.piece_size
    return numbers < min(limit, plan.whole_panels_below)


@dataclass(eq=False)
class _Edges:
    """The edges of a batch. Updates may be pending: the next sweep applies them."""

    batch: Batch
    plan: ExecutionPlan
    encoder: EdgeEncoder
    panels: list[Panel]
    networks: list[Tensor]  # by panel: the network of each edge
    first: list[list[Tensor]]  # by panel: the inputs of the encoder
    hidden: int
    states: list[Tensor] | None = None  # by panel; None before the first is kept
    pending: list[tuple[UpdatesEdges, Terms]] = field(default_factory=list)
    scratch: Scratch = field(default_factory=Scratch)

    @staticmethod
    def of(network: GraphMetanetwork, batch: Batch, plan: ExecutionPlan) -> _Edges:
        panels = arrange(batch, list_below=plan.list_below, stacked=plan.stacks_blocks)
        encoder = network.edge_encoder
        assert encoder is not None
        first = [encoder.terms(panel, batch) for panel in panels]
        networks = [torch.tensor([u.network for u in p.uses], device=batch.device)[p.use] for p in panels]
        return _Edges(batch, plan, encoder, panels, networks, first, network.hidden)

    def send(self, block: MessagePassing, ends: Terms) -> SweepResult:
        """Apply pending updates and send a block's messages."""
        keeps = self.plan.keeps_edges and bool(self.pending)

        def last(edges: Tensor, terms: list[Terms], weights: list[Tensor]) -> CellResult:
            result = block.messages(edges, terms[0], weights)
            return result._replace(edges=edges) if keeps else result

        swept = self._sweep(
            last,
            block.message_weights(),
            [ends],
            returns_edges=keeps,
            overwrites=keeps and self.states is not None and not torch.is_grad_enabled(),
            maximum=block.aggregation == "max",
        )
        if keeps:
            self.states, self.pending = swept.edges, []
        return swept

    def pool(self, readout: PooledEdges) -> Tensor:
        """Apply pending updates and sum a readout's terms. [segments, width]"""
        segments = [readout.segments(panel, self.batch) for panel in self.panels]
        swept = self._sweep(
            lambda edges, _, weights: CellResult(pooled=readout.cell(edges, weights)),
            readout.weights(),
            segments=segments,
            num_segments=readout.num_segments(self.batch),
        )
        assert swept.pooled is not None
        return swept.pooled

    def each(self, readout: EachEdge) -> Tensor:
        """Apply pending updates and return a readout's result on each edge, network by network. [E, out]"""
        swept = self._sweep(
            lambda edges, _, weights: CellResult(edges=readout.cell(edges, weights)),
            readout.weights(),
            returns_edges=True,
        )
        assert swept.edges is not None
        results = zip(swept.edges, self.panels, strict=True)
        return in_batch_order(
            self.panels, [readout.finish(result, panel, self.batch) for result, panel in results]
        )

    def states_in_order_of(self, links: Links) -> Tensor:
        """Apply pending updates and return states in the order of a list of edges. [E, hidden]"""
        swept = self._sweep(lambda edges, _, weights: CellResult(edges=edges.clone()), [], returns_edges=True)
        assert swept.edges is not None
        found = dict(
            use for panel, edges in zip(self.panels, swept.edges, strict=True) for use in panel.by_use(edges)
        )
        return torch.cat([found[use] for use in links.panel.uses])

    def _sweep(
        self,
        last: Callable[[Tensor, list[Terms], list[Tensor]], CellResult],
        last_weights: list[Tensor],
        ends: list[Terms] | None = None,
        *,
        returns_edges: bool = False,
        overwrites: bool = False,
        maximum: bool = False,
        segments: list[Tensor] | None = None,
        num_segments: int | None = None,
    ) -> SweepResult:
        """Apply pending updates, then `last`."""
        states, encoder, updates = self.states, self.encoder, [block for block, _ in self.pending]
        starts = encoder.weights() if states is None else []
        weights = [starts, *(block.edge_weights() for block in updates), last_weights]

        def cell(on_edges: list[Tensor], on_ends: list[Terms], flat: list[Tensor]) -> CellResult:
            rest = iter(flat)
            first, *middle, final = ([next(rest) for _ in layer] for layer in weights)
            edges = encoder.states(on_edges, first) if states is None else on_edges[0]
            out = scratch_buffer("states", edges, self.hidden)
            if out is not None and overwrites:
                out = edges
            for block, terms, block_weights in zip(updates, on_ends, middle, strict=False):
                edges = block.updated(edges, terms, block_weights, out=out)
            return last(edges, on_ends[len(updates) :], final)

        plan = self.plan
        sweep = Sweep(
            cell=cell,
            panels=self.panels,
            segments=segments or self.networks,
            num_nodes=self.batch.num_nodes,
            num_segments=num_segments or len(self.batch),
            piece_size=max(1, plan.piece_size // self.hidden),
            regions=plan.regions,
            scratch=self.scratch,
            returns_edges=returns_edges,
            overwrites=overwrites,
            maximum=maximum,
            executor=plan.executor if self.batch.device.type == "cpu" else one_worker,
        )
        on_edges = self.first if states is None else [[panel_states] for panel_states in states]
        on_nodes = [terms for _, terms in self.pending] + (ends or [])
        flat = [weight for layer in weights for weight in layer]
        small = _runs_whole_panels(plan, self.batch.num_edges * self.hidden)
        whole_panels = small or (maximum and torch.is_grad_enabled())
        return run(sweep, on_edges, on_nodes, flat, whole_panels=whole_panels)


def in_batch_order(panels: list[Panel], results: list[Tensor]) -> Tensor:
    """Join results on panels into one list of edges, network by network and block by block. [E, width]"""
    found = dict(use for panel, edges in zip(panels, results, strict=True) for use in panel.by_use(edges))
    return torch.cat([found[use] for use in sorted(found)])
