"""Run a metanetwork on a batch without an edge list: sweeps over panels, node updates between them.

The sweep of block `l` applies the edge update of block `l - 1` and sends the messages of block `l`; a last
sweep feeds the readout. `blocks` keeps the states of edges from one sweep to the next. `stream` keeps none:
each sweep starts from the weights and runs through all earlier updates again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch._functorch.pyfunctorch import retrieve_all_functorch_interpreters

from graph_metanetworks.graph.batch import Batch
from graph_metanetworks.nn.encoders import EdgeEncoder
from graph_metanetworks.nn.engine.panel import Panel, Where, arrange, rows
from graph_metanetworks.nn.engine.scratch import Scratch, room
from graph_metanetworks.nn.engine.sweep import Found, Shares, Sweep, Swept, Terms, alone, run
from graph_metanetworks.nn.engine.workers import torch_threads
from graph_metanetworks.nn.message_passing import MessagePassing
from graph_metanetworks.nn.readouts import EachEdge, PooledEdges
from graph_metanetworks.nn.state import Links, State, degrees, node_network

if TYPE_CHECKING:
    from graph_metanetworks.nn.metanetwork import GraphMetanetwork


@dataclass(frozen=True)
class Plan:
    """How to run: what differs between the engines."""

    keeps_edges: bool
    stacks_blocks: bool
    list_below: int  # edges: blocks that together have fewer are run as one list
    at_once_below: int  # numbers: if edge states have fewer, autograd keeps what it wants of whole panels
    piece: int  # numbers in the edge states of a piece
    regions: Callable[[tuple[int, ...], int], Iterator[Where]]  # how panels are cut into pieces
    shares: Shares


BLOCKS = Plan(
    keeps_edges=True,
    stacks_blocks=True,
    list_below=1_000,
    at_once_below=1 << 23,
    piece=1 << 19,
    regions=rows,
    shares=torch_threads,
)


def run_panels(network: GraphMetanetwork, batch: Batch, plan: Plan) -> Tensor:
    """The result of a metanetwork whose blocks are all `MessagePassing`."""
    edges = _Edges.of(network, batch, plan)
    degree, owner = degrees(batch), node_network(batch)
    node_counts = owner.bincount(minlength=len(batch))[:, None]
    edge_counts = torch.tensor([graph.num_edges for graph in batch.graphs], device=batch.device)[:, None]
    nodes = network.node_encoder(batch)
    features = network.first_globals(batch)
    for block in network.blocks:
        assert isinstance(block, MessagePassing)
        context = None if features is None else features[owner]
        found = edges.send(block, block.message_terms(nodes, context))
        assert found.nodes is not None
        nodes = block.updated_nodes(nodes, block.aggregated(found.nodes, degree), context)
        if features is not None and found.pooled is not None:
            node_mean = torch.zeros_like(features).index_add(0, owner, nodes) / node_counts
            features = block.updated_globals(
                features, node_mean, block.edge_norm.weight * found.pooled / edge_counts
            )
            context = features[owner]
        if block.edge_update is not None:
            edges.behind.append((block, block.edge_terms(nodes, context)))
    readout = network.readout
    if isinstance(readout, PooledEdges):
        return readout.finish(edges.pool(readout), batch)
    if isinstance(readout, EachEdge):
        return edges.each(readout)
    links = Links(batch)
    states = edges.in_order_of(links) if readout.reads_edges else nodes.new_empty(0, network.hidden)
    return readout(State(nodes, states, features), links)


@dataclass(eq=False)
class _Edges:
    """The edges of a batch, whose states may lag behind by a few updates."""

    batch: Batch
    plan: Plan
    encoder: EdgeEncoder
    panels: list[Panel]
    networks: list[Tensor]  # by panel: the network of each edge
    first: list[list[Tensor]]  # by panel: what the encoder needs
    hidden: int
    states: list[Tensor] | None = None  # by panel; None: as encoded
    behind: list[tuple[MessagePassing, Terms]] = field(default_factory=list)
    scratch: Scratch = field(default_factory=Scratch)

    @staticmethod
    def of(network: GraphMetanetwork, batch: Batch, plan: Plan) -> _Edges:
        panels = arrange(batch, list_below=plan.list_below, stacked=plan.stacks_blocks)
        encoder = network.edge_encoder
        first = [encoder.terms(panel, batch) for panel in panels]
        networks = [torch.tensor([u.network for u in p.uses], device=batch.device)[p.use] for p in panels]
        return _Edges(batch, plan, encoder, panels, networks, first, network.hidden)

    def send(self, block: MessagePassing, ends: Terms) -> Swept:
        """Bring edges up to date and send a block's messages."""
        keeps = self.plan.keeps_edges and bool(self.behind)

        def last(edges: Tensor, own: list[Terms], weights: list[Tensor]) -> Found:
            found = block.messages(edges, own[0], weights)
            return found._replace(edges=edges) if keeps else found

        swept = self._sweep(
            last,
            block.message_weights(),
            [ends],
            gives_edges=keeps,
            overwrites=keeps and self.states is not None and not torch.is_grad_enabled(),
            maximum=block.aggregation == "max",
        )
        if keeps:
            self.states, self.behind = swept.edges, []
        return swept

    def pool(self, readout: PooledEdges) -> Tensor:
        """Bring edges up to date and sum what a readout makes of them. [segments, width]"""
        segments = [readout.segments(panel, self.batch) for panel in self.panels]
        swept = self._sweep(
            lambda edges, _, weights: Found(pooled=readout.cell(edges, weights)),
            readout.weights(),
            segments=segments,
            num_segments=readout.num_segments(self.batch),
        )
        assert swept.pooled is not None
        return swept.pooled

    def each(self, readout: EachEdge) -> Tensor:
        """Bring edges up to date and give a readout's result on each, network by network. [E, out]"""
        swept = self._sweep(
            lambda edges, _, weights: Found(edges=readout.cell(edges, weights)),
            readout.weights(),
            gives_edges=True,
        )
        assert swept.edges is not None
        results = zip(swept.edges, self.panels, strict=True)
        return in_order(self.panels, [readout.finish(own, panel, self.batch) for own, panel in results])

    def in_order_of(self, links: Links) -> Tensor:
        """Up-to-date states in the order of a list of edges. [E, hidden]"""
        swept = self._sweep(lambda edges, _, weights: Found(edges=edges.clone()), [], gives_edges=True)
        assert swept.edges is not None
        found = dict(
            use for panel, own in zip(self.panels, swept.edges, strict=True) for use in panel.by_use(own)
        )
        return torch.cat([found[use] for use in links.panel.uses])

    def _fits(self) -> bool:
        """Whether a sweep need not be cut into pieces; under `torch.func` it must not be."""
        if retrieve_all_functorch_interpreters():
            return True
        limit = self.plan.at_once_below if torch.is_grad_enabled() else self.plan.piece
        return self.batch.num_edges * self.hidden < min(limit, self.plan.at_once_below)

    def _sweep(
        self,
        last: Callable[[Tensor, list[Terms], list[Tensor]], Found],
        last_weights: list[Tensor],
        ends: list[Terms] | None = None,
        *,
        gives_edges: bool = False,
        overwrites: bool = False,
        maximum: bool = False,
        segments: list[Tensor] | None = None,
        num_segments: int | None = None,
    ) -> Swept:
        """Bring edges up to date, then do something last."""
        states, encoder, updates = self.states, self.encoder, [block for block, _ in self.behind]
        starts = encoder.weights() if states is None else []
        weights = [starts, *(block.edge_weights() for block in updates), last_weights]

        def cell(on_edges: list[Tensor], on_ends: list[Terms], flat: list[Tensor]) -> Found:
            rest = iter(flat)
            first, *middle, final = ([next(rest) for _ in own] for own in weights)
            edges = encoder.states(on_edges, first) if states is None else on_edges[0]
            place = room("states", edges, self.hidden)
            if place is not None and overwrites:
                place = edges
            for block, own, given in zip(updates, on_ends, middle, strict=False):
                edges = block.updated(edges, own, given, out=place)
            return last(edges, on_ends[len(updates) :], final)

        plan = self.plan
        sweep = Sweep(
            cell=cell,
            panels=self.panels,
            segments=segments or self.networks,
            num_nodes=self.batch.num_nodes,
            num_segments=num_segments or len(self.batch),
            piece=max(1, plan.piece // self.hidden),
            regions=plan.regions,
            scratch=self.scratch,
            gives_edges=gives_edges,
            overwrites=overwrites,
            maximum=maximum,
            shares=plan.shares if self.batch.device.type == "cpu" else alone,
        )
        on_edges = self.first if states is None else [[own] for own in states]
        on_nodes = [terms for _, terms in self.behind] + (ends or [])
        flat = [weight for own in weights for weight in own]
        at_once = self._fits() or (maximum and torch.is_grad_enabled())
        return run(sweep, on_edges, on_nodes, flat, at_once=at_once)


def in_order(panels: list[Panel], results: list[Tensor]) -> Tensor:
    """Results on panels as one list of edges, network by network and block by block. [E, width]"""
    found = dict(part for panel, own in zip(panels, results, strict=True) for part in panel.by_use(own))
    return torch.cat([found[use] for use in sorted(found)])
