"""One pass over all edges, piece by piece.

A *cell* is a pure function on a piece of a panel: it takes edge tensors cut to the piece, node terms gathered
at both ends of its edges, and weights. A *sweep* runs the cell over all panels and sums its messages to nodes
and networks. Pieces are small enough to stay in cache, and no intermediate result of a piece is kept: the
backward pass recomputes the cell. Memory is therefore that of the results, whatever the cell does inside.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from graph_metanetworks.nn.engine.panel import Panel, Region, cut
from graph_metanetworks.nn.engine.scratch import Scratch


class CellResult(NamedTuple):
    """The results of a cell on a piece; each `[*piece, width]` or None."""

    edges: Tensor | None = None  # new edge states, or the result on edges
    to_target: Tensor | None = None  # messages
    to_source: Tensor | None = None
    pooled: Tensor | None = None  # terms that are summed over segments


class Terms(NamedTuple):
    """Terms of a layer's nodes, `[N, width]`, as source and as target; gathered, `[*piece, width]`."""

    source: Tensor
    target: Tensor


Cell = Callable[[list[Tensor], list[Terms], list[Tensor]], CellResult]


Piece = tuple[int, Region]  # the number of a panel, and a region of it
Sums = list[Tensor | None]
Work = Callable[[Iterable[Piece]], Sums]


class Executor(Protocol):
    """Distributes pieces over workers and returns the sums of each.

    `writes`: workers also write to shared memory, so they must be threads.
    """

    def __call__(self, work: Work, pieces: Iterable[Piece], /, *, writes: bool) -> list[Sums]: ...


def one_worker(work: Work, pieces: Iterable[Piece], *, writes: bool) -> list[Sums]:
    """Run all pieces in this thread."""
    return [work(pieces)]


@dataclass(frozen=True, eq=False)
class Sweep:
    """A cell, the panels it runs on, and the sizes of its sums."""

    cell: Cell
    panels: Sequence[Panel]
    segments: Sequence[Tensor]  # by panel: the segment of each edge, broadcastable to its shape
    num_nodes: int
    num_segments: int
    piece_size: int  # edges
    regions: Callable[[tuple[int, ...], int], Iterator[Region]]  # how panels are cut
    scratch: Scratch
    returns_edges: bool = False  # the cell returns states or results of edges
    overwrites: bool = False  # the cell may overwrite the edge states it reads
    maximum: bool = False  # reduce messages by their maximum instead of their sum
    executor: Executor = one_worker


class SweepResult(NamedTuple):
    """The results of a cell on all edges, and their sums."""

    edges: list[Tensor] | None  # by panel
    nodes: Tensor | None  # [N, width] sums of messages
    pooled: Tensor | None  # [segments, width]


def run(
    sweep: Sweep,
    on_edges: list[list[Tensor]],
    on_nodes: list[Terms],
    weights: list[Tensor],
    *,
    whole_panels: bool,
) -> SweepResult:
    """Run a sweep piece by piece, or on whole panels."""
    if whole_panels:
        return _run_whole_panels(sweep, on_edges, on_nodes, weights)
    flat = [tensor for tensors in on_edges for tensor in tensors]
    ends = [tensor for terms in on_nodes for tensor in terms]
    layout = [len(tensors) for tensors in on_edges]
    nodes, pooled, *edges = _Recompute.apply(sweep, layout, len(ends), *flat, *ends, *weights)
    return SweepResult(edges or None, nodes, pooled)


def _destinations(sweep: Sweep, number: int, region: Region) -> tuple[Tensor, Tensor, Tensor]:
    panel = sweep.panels[number]
    return cut(panel.target, region), cut(panel.source, region), cut(sweep.segments[number], region)


def _gather(indices: tuple[Tensor, Tensor, Tensor], on_nodes: Sequence[Terms]) -> list[Terms]:
    target, source, _ = indices
    return [Terms(_rows(terms.source, source), _rows(terms.target, target)) for terms in on_nodes]


def _rows(terms: Tensor, index: Tensor) -> Tensor:
    return terms.index_select(0, index.reshape(-1)).view(*index.shape, -1)


class _Sums:
    """Sums (or maxima) at nodes and sums over segments, allocated when the first terms show their width."""

    def __init__(self, sweep: Sweep) -> None:
        self.sweep = sweep
        self.nodes: Tensor | None = None
        self.pooled: Tensor | None = None

    def add(self, result: CellResult, indices: tuple[Tensor, Tensor, Tensor]) -> None:
        """Add the terms of a piece, as `_reduced` returns them."""
        target, source, segment = (index.reshape(-1) for index in indices)
        for index, terms in ((target, result.to_target), (source, result.to_source)):
            if terms is not None:
                self._add_nodes(index, terms)
        if result.pooled is not None:
            if self.pooled is None:
                self.pooled = _zeros(self.sweep.num_segments, result.pooled)
            self.pooled.index_add_(0, segment, result.pooled.to(self.pooled.dtype))

    def _add_nodes(self, index: Tensor, terms: Tensor) -> None:
        if self.nodes is None:
            self.nodes = _zeros(self.sweep.num_nodes, terms)
        terms = terms.to(self.nodes.dtype)
        if self.sweep.maximum:  # messages are not negative, so maxima may start at zero
            self.nodes = self.nodes.scatter_reduce(0, index[:, None].expand_as(terms), terms, "amax")
        else:
            self.nodes.index_add_(0, index, terms)


def _zeros(rows: int, terms: Tensor) -> Tensor:
    """Return a tensor to sum into. Under autocast it is in float32, as autocast does for all sums."""
    autocast = torch.is_autocast_enabled(terms.device.type)
    dtype = torch.promote_types(terms.dtype, torch.float32) if autocast else terms.dtype
    return terms.new_zeros(rows, terms.shape[-1], dtype=dtype)


def _reduced(sweep: Sweep, result: CellResult, indices: tuple[Tensor, Tensor, Tensor]) -> CellResult:
    """Sum terms over the dimensions along which their destination is constant. -> [n, width]"""
    kinds = (sweep.maximum, sweep.maximum, False)
    reduced = [
        None if terms is None else _reduce(terms, index, maximum)
        for terms, index, maximum in zip(result[1:], indices, kinds, strict=True)
    ]
    return CellResult(result.edges, *reduced)


def _reduce(terms: Tensor, index: Tensor, maximum: bool) -> Tensor:
    terms = terms.to(torch.promote_types(terms.dtype, torch.float32))  # do not sum in half precision
    dims = [d for d, length in enumerate(index.shape) if length == 1 and terms.shape[d] != 1]
    if dims:
        terms = terms.amax(dims, keepdim=True) if maximum else terms.sum(dims, keepdim=True)
    return terms.reshape(-1, terms.shape[-1])


def _run_whole_panels(
    sweep: Sweep, on_edges: list[list[Tensor]], on_nodes: list[Terms], weights: list[Tensor]
) -> SweepResult:
    """Run whole panels and leave gradients to autograd."""
    sums, edges = _Sums(sweep), []
    for number in range(len(sweep.panels)):
        indices = _destinations(sweep, number, ())
        result = sweep.cell(on_edges[number], _gather(indices, on_nodes), weights)
        sums.add(_reduced(sweep, result, indices), indices)
        edges.append(result.edges)
    return SweepResult(None if edges[0] is None else edges, sums.nodes, sums.pooled)


def _pieces(sweep: Sweep) -> Iterator[Piece]:
    for number, panel in enumerate(sweep.panels):
        for region in sweep.regions(panel.shape, sweep.piece_size):
            yield number, region


def _autocast() -> Callable[[], AbstractContextManager]:
    """Capture the current autocast state, to recompute a cell under it."""
    for device in ("cpu", "cuda"):
        if torch.is_autocast_enabled(device):
            dtype = torch.get_autocast_dtype(device)
            return lambda: torch.autocast(device, dtype=dtype)
    return nullcontext


class _Recompute(torch.autograd.Function):
    @staticmethod
    def forward(ctx, sweep: Sweep, layout: list[int], num_ends: int, *tensors: Tensor):
        on_edges, on_nodes, weights = _unflatten(layout, num_ends, tensors)
        ctx.sweep, ctx.layout, ctx.num_ends, ctx.autocast = sweep, layout, num_ends, _autocast()
        ctx.save_for_backward(*tensors)
        ctx.set_materialize_grads(False)

        # autocast chooses the dtypes of results, which buffers cannot know
        reused_memory = nullcontext if ctx.autocast is not nullcontext else sweep.scratch.used
        edges = {number: states for number, (states,) in enumerate(on_edges)} if sweep.overwrites else {}
        allocation = threading.Lock()

        def keep(states: Tensor, number: int, region: Region) -> None:
            with allocation:
                if number not in edges:
                    edges[number] = states.new_empty(*sweep.panels[number].shape, states.shape[-1])
            edges[number][region] = states

        def work(pieces: Iterable[Piece]) -> Sums:
            sums = _Sums(sweep)
            with torch.no_grad(), ctx.autocast(), reused_memory():
                for number, region in pieces:
                    indices = _destinations(sweep, number, region)
                    sliced = [cut(tensor, region) for tensor in on_edges[number]]
                    result = sweep.cell(sliced, _gather(indices, on_nodes), weights)
                    sums.add(_reduced(sweep, result, indices), indices)
                    if result.edges is not None and result.edges is not sliced[0]:
                        keep(result.edges, number, region)
            return [sums.nodes, sums.pooled]

        writes = sweep.returns_edges or any(tensor.device.type != "cpu" for tensor in weights)
        (nodes, pooled), *others = sweep.executor(work, _pieces(sweep), writes=writes)
        for other_nodes, other_pooled in others:
            _accumulate(nodes, other_nodes, maximum=sweep.maximum)
            _accumulate(pooled, other_pooled)
        return nodes, pooled, *(edges[number] for number in sorted(edges))

    @staticmethod
    def backward(ctx, *given: Tensor | None):
        to_nodes, to_pooled, *to_edges = given
        sweep: Sweep = ctx.sweep
        needed = ctx.needs_input_grad[3:]
        grads = [
            torch.zeros_like(t) if need else None for t, need in zip(ctx.saved_tensors, needed, strict=True)
        ]
        on_edges, on_nodes, weights = _unflatten(ctx.layout, ctx.num_ends, ctx.saved_tensors)
        edge_grads, node_grads, weight_grads = _unflatten(ctx.layout, ctx.num_ends, grads)
        shapes = [
            panel.shape for panel, count in zip(sweep.panels, ctx.layout, strict=True) for _ in range(count)
        ]
        shapes += [None] * (len(grads) - len(shapes))

        def work(pieces: Iterable[Piece]) -> Sums:
            """Return a worker's sums. Gradients of edges are shared, since pieces do not overlap."""
            sums = [
                torch.zeros_like(grad) if grad is not None and grad.shape[:-1] != shape else grad
                for grad, shape in zip(grads, shapes, strict=True)
            ]
            at_edges, at_nodes, at_weights = _unflatten(ctx.layout, ctx.num_ends, sums)
            for number, region in pieces:
                target, source, _ = _destinations(sweep, number, region)
                piece_grads = iter(gradients(number, region))
                for whole in at_edges[number]:
                    _accumulate(None if whole is None else cut(whole, region), next(piece_grads))
                for terms in at_nodes:
                    for whole, index in zip(terms, (source, target), strict=True):
                        grad = next(piece_grads)
                        if whole is not None and grad is not None:
                            grad = grad.reshape(-1, grad.shape[-1]).to(whole.dtype)
                            whole.index_add_(0, index.reshape(-1), grad)
                for whole in at_weights:
                    _accumulate(whole, next(piece_grads))
            return sums

        def gradients(number: int, region: Region) -> list[Tensor | None]:
            """Return the gradients of a piece's edge tensors, of the terms at its ends, and of weights."""
            indices = _destinations(sweep, number, region)
            with torch.enable_grad(), ctx.autocast():
                sliced = [
                    _leaf(cut(t, region), g)
                    for t, g in zip(on_edges[number], edge_grads[number], strict=True)
                ]
                gathered = _gather(indices, on_nodes)
                ends = [
                    Terms(*(_leaf(t, g) for t, g in zip(terms, grads_of_terms, strict=True)))
                    for terms, grads_of_terms in zip(gathered, node_grads, strict=True)
                ]
                leaf_weights = [_leaf(t, g) for t, g in zip(weights, weight_grads, strict=True)]
                result = _reduced(sweep, sweep.cell(sliced, ends, leaf_weights), indices)
            to_panel = to_edges[number] if to_edges else None
            given = CellResult(
                None if to_panel is None else to_panel[region],
                *(
                    None if whole is None else whole[index.reshape(-1)]
                    for whole, index in zip((to_nodes, to_nodes, to_pooled), indices, strict=True)
                ),
            )
            pairs = [(f, g) for f, g in zip(result, given, strict=True) if f is not None and g is not None]
            inputs = [*sliced, *(tensor for terms in ends for tensor in terms), *leaf_weights]
            needed = [tensor for tensor in inputs if tensor.requires_grad]
            found_grads = iter(
                torch.autograd.grad(
                    [f for f, _ in pairs], needed, [g.to(f.dtype) for f, g in pairs], allow_unused=True
                )
            )
            return [next(found_grads) if tensor.requires_grad else None for tensor in inputs]

        for sums in sweep.executor(work, _pieces(sweep), writes=True):
            for whole, part in zip(grads, sums, strict=True):
                if part is not whole:
                    _accumulate(whole, part)
        return None, None, None, *grads


def _leaf(tensor: Tensor, grad: Tensor | None) -> Tensor:
    return tensor.detach().requires_grad_(grad is not None)


def _accumulate(whole: Tensor | None, part: Tensor | None, *, maximum: bool = False) -> None:
    if whole is not None and part is not None:
        torch.maximum(whole, part, out=whole) if maximum else whole.add_(part)


def _unflatten(layout: list[int], num_ends: int, tensors: Sequence) -> tuple[list[list], list[Terms], list]:
    """Invert the flattening of `run`: tensors by panel, terms by layer, weights."""
    rest = iter(tensors)
    on_edges = [[next(rest) for _ in range(count)] for count in layout]
    on_nodes = [Terms(next(rest), next(rest)) for _ in range(num_ends // 2)]
    return on_edges, on_nodes, list(rest)
