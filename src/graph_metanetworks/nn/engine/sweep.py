"""One pass over all edges, piece by piece.

A *cell* is a pure function of what lies on a piece of a panel: tensors cut to the piece, node terms gathered
at its two ends, and weights. A *sweep* runs it over all panels and adds up what goes to nodes and networks.
Pieces are small enough to stay in cache, and nothing of a piece is kept: the backward pass runs the cell
again. Memory is therefore that of the results, whatever the cell does inside.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from graph_metanetworks.nn.engine.panel import Panel, Where, cut
from graph_metanetworks.nn.engine.scratch import Scratch


class Found(NamedTuple):
    """What a cell finds on a piece; each `[*piece, width]` or None."""

    edges: Tensor | None = None  # new edge states, or the result on edges
    to_target: Tensor | None = None
    to_source: Tensor | None = None
    pooled: Tensor | None = None


class Terms(NamedTuple):
    """What a layer's edges need of their ends, `[N, width]` each; gathered for a piece, `[*piece, width]`."""

    source: Tensor
    target: Tensor


Cell = Callable[[list[Tensor], list[Terms], list[Tensor]], Found]


Place = tuple[int, Where]  # of a piece: a panel, and where in it
Sums = list[Tensor | None]
Work = Callable[[Iterable[Place]], Sums]


class Shares(Protocol):
    """How pieces are shared out between workers. Gives the sums of each worker over its share.

    `writes`: workers write besides to memory that all see.
    """

    def __call__(self, work: Work, places: Iterable[Place], /, *, writes: bool) -> list[Sums]: ...


def alone(work: Work, places: Iterable[Place], *, writes: bool) -> list[Sums]:
    """One worker."""
    return [work(places)]


@dataclass(frozen=True, eq=False)
class Sweep:
    """What to run, on what, and how large the sums are."""

    cell: Cell
    panels: Sequence[Panel]
    segments: Sequence[Tensor]  # by panel: where pooled terms go, broadcastable to its shape
    num_nodes: int
    num_segments: int
    piece: int  # edges
    regions: Callable[[tuple[int, ...], int], Iterator[Where]]  # how panels are cut
    scratch: Scratch
    gives_edges: bool = False  # the cell finds states or results of edges
    overwrites: bool = False  # the cell may write new states over those on edges, which nobody needs any more
    maximum: bool = False  # messages are reduced by their maximum instead of their sum
    shares: Shares = alone


class Swept(NamedTuple):
    edges: list[Tensor] | None  # by panel
    nodes: Tensor | None  # [N, width] sums of messages
    pooled: Tensor | None  # [segments, width]


def run(
    sweep: Sweep, on_edges: list[list[Tensor]], on_nodes: list[Terms], weights: list[Tensor], *, at_once: bool
) -> Swept:
    """Run a sweep, by pieces or with whole panels at once."""
    if at_once:
        return _at_once(sweep, on_edges, on_nodes, weights)
    flat = [tensor for own in on_edges for tensor in own]
    ends = [tensor for terms in on_nodes for tensor in terms]
    results = _Recompute.apply(sweep, [len(own) for own in on_edges], len(ends), *flat, *ends, *weights)
    nodes, pooled, *edges = results
    return Swept(edges or None, nodes, pooled)


def _destinations(sweep: Sweep, number: int, where: Where) -> tuple[Tensor, Tensor, Tensor]:
    panel = sweep.panels[number]
    return cut(panel.target, where), cut(panel.source, where), cut(sweep.segments[number], where)


def _gather(indices: tuple[Tensor, Tensor, Tensor], on_nodes: Sequence[Terms]) -> list[Terms]:
    target, source, _ = indices
    return [Terms(_rows(terms.source, source), _rows(terms.target, target)) for terms in on_nodes]


def _rows(terms: Tensor, index: Tensor) -> Tensor:
    return terms.index_select(0, index.reshape(-1)).view(*index.shape, -1)


class _Sums:
    """Sums (or maxima) at nodes and sums over networks, made when the first term shows its width."""

    def __init__(self, sweep: Sweep) -> None:
        self.sweep = sweep
        self.nodes: Tensor | None = None
        self.pooled: Tensor | None = None

    def add(self, found: Found, indices: tuple[Tensor, Tensor, Tensor]) -> None:
        """Terms that `_reduced` has summed over a piece."""
        target, source, segment = (index.reshape(-1) for index in indices)
        for index, terms in ((target, found.to_target), (source, found.to_source)):
            if terms is not None:
                self._add_nodes(index, terms)
        if found.pooled is not None:
            if self.pooled is None:
                self.pooled = _zeros(self.sweep.num_segments, found.pooled)
            self.pooled.index_add_(0, segment, found.pooled.to(self.pooled.dtype))

    def _add_nodes(self, index: Tensor, terms: Tensor) -> None:
        if self.nodes is None:
            self.nodes = _zeros(self.sweep.num_nodes, terms)
        terms = terms.to(self.nodes.dtype)
        if self.sweep.maximum:  # messages are not negative, so zero is where maxima start
            self.nodes = self.nodes.scatter_reduce(0, index[:, None].expand_as(terms), terms, "amax")
        else:
            self.nodes.index_add_(0, index, terms)


def _zeros(rows: int, terms: Tensor) -> Tensor:
    """Where sums start. Under autocast they are in float32, as all its sums are."""
    autocast = torch.is_autocast_enabled(terms.device.type)
    dtype = torch.promote_types(terms.dtype, torch.float32) if autocast else terms.dtype
    return terms.new_zeros(rows, terms.shape[-1], dtype=dtype)


def _reduced(sweep: Sweep, found: Found, indices: tuple[Tensor, Tensor, Tensor]) -> Found:
    """Terms summed over the dimensions along which their destination does not vary, `[n, width]`."""
    kinds = (sweep.maximum, sweep.maximum, False)
    reduced = [
        None if terms is None else _reduce(terms, index, maximum)
        for terms, index, maximum in zip(found[1:], indices, kinds, strict=True)
    ]
    return Found(found.edges, *reduced)


def _reduce(terms: Tensor, index: Tensor, maximum: bool) -> Tensor:
    terms = terms.to(torch.promote_types(terms.dtype, torch.float32))  # sums are not left to half precision
    dims = [d for d, length in enumerate(index.shape) if length == 1 and terms.shape[d] != 1]
    if dims:
        terms = terms.amax(dims, keepdim=True) if maximum else terms.sum(dims, keepdim=True)
    return terms.reshape(-1, terms.shape[-1])


def _at_once(
    sweep: Sweep, on_edges: list[list[Tensor]], on_nodes: list[Terms], weights: list[Tensor]
) -> Swept:
    """The plain form: whole panels, gradients by autograd."""
    sums, edges = _Sums(sweep), []
    for number in range(len(sweep.panels)):
        indices = _destinations(sweep, number, ())
        found = sweep.cell(on_edges[number], _gather(indices, on_nodes), weights)
        sums.add(_reduced(sweep, found, indices), indices)
        edges.append(found.edges)
    return Swept(None if edges[0] is None else edges, sums.nodes, sums.pooled)


def _places(sweep: Sweep) -> Iterator[Place]:
    for number, panel in enumerate(sweep.panels):
        for where in sweep.regions(panel.shape, sweep.piece):
            yield number, where


def _autocast() -> Callable[[], AbstractContextManager]:
    """The autocast state as it is now, to run a cell again under it."""
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

        reuse = nullcontext if ctx.autocast is not nullcontext else sweep.scratch.used  # it has its own types
        edges = {number: own for number, (own,) in enumerate(on_edges)} if sweep.overwrites else {}
        making = threading.Lock()

        def keep(found: Tensor, number: int, where: Where) -> None:
            with making:
                if number not in edges:
                    edges[number] = found.new_empty(*sweep.panels[number].shape, found.shape[-1])
            edges[number][where] = found

        def work(places: Iterable[Place]) -> Sums:
            sums = _Sums(sweep)
            with torch.no_grad(), ctx.autocast(), reuse():
                for number, where in places:
                    indices = _destinations(sweep, number, where)
                    sliced = [cut(tensor, where) for tensor in on_edges[number]]
                    found = sweep.cell(sliced, _gather(indices, on_nodes), weights)
                    sums.add(_reduced(sweep, found, indices), indices)
                    if found.edges is not None and found.edges is not sliced[0]:
                        keep(found.edges, number, where)
            return [sums.nodes, sums.pooled]

        writes = sweep.gives_edges or any(tensor.device.type != "cpu" for tensor in weights)
        (nodes, pooled), *others = sweep.shares(work, _places(sweep), writes=writes)
        for other_nodes, other_pooled in others:
            _join(nodes, other_nodes, maximum=sweep.maximum)
            _join(pooled, other_pooled)
        return nodes, pooled, *(edges[number] for number in sorted(edges))

    @staticmethod
    def backward(ctx, *given: Tensor | None):
        to_nodes, to_pooled, *to_edges = given
        sweep: Sweep = ctx.sweep
        wanted = ctx.needs_input_grad[3:]
        grads = [
            torch.zeros_like(t) if need else None for t, need in zip(ctx.saved_tensors, wanted, strict=True)
        ]
        on_edges, on_nodes, weights = _unflatten(ctx.layout, ctx.num_ends, ctx.saved_tensors)
        edge_grads, node_grads, weight_grads = _unflatten(ctx.layout, ctx.num_ends, grads)
        shapes = [
            panel.shape for panel, count in zip(sweep.panels, ctx.layout, strict=True) for _ in range(count)
        ]
        shapes += [None] * (len(grads) - len(shapes))

        def work(places: Iterable[Place]) -> Sums:
            """A worker's sums. What has an entry for each edge needs none: pieces do not overlap."""
            mine = [
                torch.zeros_like(grad) if grad is not None and grad.shape[:-1] != shape else grad
                for grad, shape in zip(grads, shapes, strict=True)
            ]
            at_edges, at_nodes, at_weights = _unflatten(ctx.layout, ctx.num_ends, mine)
            for number, where in places:
                target, source, _ = _destinations(sweep, number, where)
                found = iter(gradients(number, where))
                for whole in at_edges[number]:
                    _join(None if whole is None else cut(whole, where), next(found))
                for terms in at_nodes:
                    for whole, index in zip(terms, (source, target), strict=True):
                        grad = next(found)
                        if whole is not None and grad is not None:
                            grad = grad.reshape(-1, grad.shape[-1]).to(whole.dtype)
                            whole.index_add_(0, index.reshape(-1), grad)
                for whole in at_weights:
                    _join(whole, next(found))
            return mine

        def gradients(number: int, where: Where) -> list[Tensor | None]:
            """Of what lies on a piece, of the terms at its ends, and of weights."""
            indices = _destinations(sweep, number, where)
            with torch.enable_grad(), ctx.autocast():
                sliced = [
                    _leaf(cut(t, where), g) for t, g in zip(on_edges[number], edge_grads[number], strict=True)
                ]
                gathered = _gather(indices, on_nodes)
                ends = [
                    Terms(*(_leaf(t, g) for t, g in zip(terms, own, strict=True)))
                    for terms, own in zip(gathered, node_grads, strict=True)
                ]
                own = [_leaf(t, g) for t, g in zip(weights, weight_grads, strict=True)]
                found = _reduced(sweep, sweep.cell(sliced, ends, own), indices)
            own_edges = to_edges[number] if to_edges else None
            given = Found(
                None if own_edges is None else own_edges[where],
                *(
                    None if whole is None else whole[index.reshape(-1)]
                    for whole, index in zip((to_nodes, to_nodes, to_pooled), indices, strict=True)
                ),
            )
            pairs = [(f, g) for f, g in zip(found, given, strict=True) if f is not None and g is not None]
            inputs = [*sliced, *(tensor for terms in ends for tensor in terms), *own]
            needed = [tensor for tensor in inputs if tensor.requires_grad]
            found_grads = iter(
                torch.autograd.grad(
                    [f for f, _ in pairs], needed, [g.to(f.dtype) for f, g in pairs], allow_unused=True
                )
            )
            return [next(found_grads) if tensor.requires_grad else None for tensor in inputs]

        for mine in sweep.shares(work, _places(sweep), writes=True):
            for whole, part in zip(grads, mine, strict=True):
                if part is not whole:
                    _join(whole, part)
        return None, None, None, *grads


def _leaf(tensor: Tensor, grad: Tensor | None) -> Tensor:
    return tensor.detach().requires_grad_(grad is not None)


def _join(whole: Tensor | None, part: Tensor | None, *, maximum: bool = False) -> None:
    if whole is not None and part is not None:
        torch.maximum(whole, part, out=whole) if maximum else whole.add_(part)


def _unflatten(layout: list[int], num_ends: int, tensors: Sequence) -> tuple[list[list], list[Terms], list]:
    """The inverse of `run`'s flattening: by panel, by layer, weights."""
    rest = iter(tensors)
    on_edges = [[next(rest) for _ in range(count)] for count in layout]
    on_nodes = [Terms(next(rest), next(rest)) for _ in range(num_ends // 2)]
    return on_edges, on_nodes, list(rest)
