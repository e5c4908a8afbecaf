"""A fixed representative of each orbit: the same weights for all permuted copies of a network.

Every neuron gets a colour, a 64-bit number computed from the weights around it in a way that does not depend
on the order of neurons: sums, modulo 2^64, of hashes of weights and of the colours at their other ends.
Rounds are repeated until no more neurons can be distinguished. Sorting by colour is the canonical order.

Neurons of equal colour are mostly twins, with the same weights everywhere, whose order does not matter.
Others are individualised one at a time and the rounds repeated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from graph_metanetworks.symmetry.automorphism import Automorphism
from graph_metanetworks.symmetry.axes import Axis, ordered_parents
from graph_metanetworks.symmetry.pieces import Piece, is_free, pieces

if TYPE_CHECKING:
    from graph_metanetworks.graph.parameter_graph import ParameterGraph
    from graph_metanetworks.symmetry.group import Symmetry

Colours = dict[Axis, NDArray[np.uint64]]  # [*sizes of the axes it depends on, size]


def canonicalize(graph: ParameterGraph, state_dict: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the representative of a network's orbit, bit for bit the same for every permuted copy.

    Neurons with equal weights everywhere are interchangeable, so their order does not matter. Weights so
    regular that colours cannot distinguish different neurons (matrices of zeros and ones, such as those of
    regular graphs) may have several representatives; trained or randomly initialised weights have one.

    >>> import torch, graph_metanetworks as gmn
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 9), torch.nn.ReLU(), torch.nn.Linear(9, 1))
    >>> graph = gmn.trace(model, torch.randn(1, 2))
    >>> copy = graph.symmetry.sample().apply(model.state_dict())
    >>> ours, theirs = gmn.canonicalize(graph, model.state_dict()), gmn.canonicalize(graph, copy)
    >>> all(torch.equal(ours[name], theirs[name]) for name in ours)
    True
    """
    graph.checked(state_dict)
    return canonical_automorphism(graph.symmetry, state_dict).apply(state_dict)


def canonical_automorphism(symmetry: Symmetry, state_dict: Mapping[str, Tensor]) -> Automorphism:
    """Return the automorphism that takes a network to the representative of its orbit."""
    colours = _refined(symmetry, state_dict, {axis: _start(axis) for axis in symmetry.variables})
    while (axis := next((axis for axis in colours if _ties(colours[axis]).any()), None)) is not None:
        if not _order_twins(symmetry, state_dict, colours, axis):
            _single_out(colours[axis])
            colours = _refined(symmetry, state_dict, colours)
    return Automorphism(symmetry, {axis: _ranks(own) for axis, own in colours.items()})


def _start(axis: Axis) -> NDArray[np.uint64]:
    return np.zeros([*(parent.size for parent in ordered_parents(axis)), axis.size], dtype=np.uint64)


def _ranks(colours: NDArray[np.uint64]) -> Tensor:
    order = np.argsort(colours, axis=-1, kind="stable")
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, np.broadcast_to(np.arange(order.shape[-1]), order.shape), axis=-1)
    return torch.from_numpy(ranks)


# ------------------------------------------------------------------ refinement


def _refined(symmetry: Symmetry, state_dict: Mapping[str, Tensor], colours: Colours) -> Colours:
    """Refine colours until no more neurons can be distinguished."""
    distinct = -1
    while (found := _distinct(colours)) > distinct and any(_ties(own).any() for own in colours.values()):
        distinct = found
        colours = _round(symmetry, state_dict, colours)
    return colours


def _distinct(colours: Colours) -> int:
    return sum(len(np.unique(own)) for own in colours.values())


def _ties(colours: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Return which neurons share their colour with another of the same head."""
    ordered = np.sort(colours, axis=-1)
    repeated = ordered[..., 1:][ordered[..., 1:] == ordered[..., :-1]]
    return np.isin(colours, repeated) if repeated.size else np.zeros(colours.shape, dtype=bool)


def _round(symmetry: Symmetry, state_dict: Mapping[str, Tensor], colours: Colours) -> Colours:
    new = {axis: mixed(own + np.uint64(1)) for axis, own in colours.items()}
    for number, piece in _numbered_pieces(symmetry, state_dict):
        elements = _elements(piece, number)
        for place, axis in enumerate(piece.axes):
            elements = elements + _along(piece, place, mixed(_coordinate(axis, colours) + _salt(place, 1)))
        elements = mixed(elements)
        for place, axis in enumerate(piece.axes):
            if is_free(axis):
                new[axis] += mixed(_sum_to(piece, place, elements) + _salt(number, place))
    return {axis: mixed(own) for axis, own in new.items()}


def _numbered_pieces(symmetry: Symmetry, state_dict: Mapping[str, Tensor]) -> Iterator[tuple[int, Piece]]:
    number = 0
    for name, dims in symmetry.parameters.items():
        for piece in pieces(state_dict[name].detach().cpu(), dims):
            number += 1
            if any(map(is_free, piece.axes)):
                yield number, piece


def _elements(piece: Piece, number: int) -> NDArray[np.uint64]:
    """Hash each element by its bits."""
    value = piece.value.contiguous()
    sizes = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    bits = value.view(sizes[value.element_size()]).to(torch.int64).numpy().view(np.uint64)
    return mixed(bits + _salt(number, 0))


def _coordinate(axis: Axis, colours: Colours) -> NDArray[np.uint64]:
    return colours[axis] if is_free(axis) else np.arange(axis.size, dtype=np.uint64)


def _along(piece: Piece, place: int, values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Lay out values of an axis, and of those it depends on, for broadcasting over the piece."""
    axis = piece.axes[place]
    where = [*(piece.outer(axis) if is_free(axis) else []), place]
    shape = [1] * len(piece.axes)
    for dim in where:
        shape[dim] = piece.axes[dim].size
    return values.transpose(np.argsort(where)).reshape(shape)


def _sum_to(piece: Piece, place: int, values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Sum over all dimensions except that of an axis and those of the axes it depends on."""
    where = [*piece.outer(piece.axes[place]), place]
    others = tuple(dim for dim in range(len(piece.axes)) if dim not in where)
    order = np.argsort(np.argsort(where))
    return values.sum(axis=others, dtype=np.uint64).transpose(order)


def mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Apply the finaliser of SplitMix64: a bijection of 64-bit numbers that looks random."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _salt(number: int, place: int) -> np.uint64:
    return mixed(np.array([number * 64 + place + 1], dtype=np.uint64))[0]


# ------------------------------------------------------------------ ties


def _order_twins(symmetry: Symmetry, state_dict: Mapping[str, Tensor], colours: Colours, axis: Axis) -> bool:
    """Number twins along an axis in any order; return whether there were any."""
    slices = np.zeros_like(colours[axis])
    for number, piece in _numbered_pieces(symmetry, state_dict):
        places = piece.places(axis)
        if len(places) > 1:  # slices of a square matrix refer to one another
            return False
        if not places:
            continue
        elements = _elements(piece, number)
        for place, other in enumerate(piece.axes):
            if other is not axis:
                index = np.arange(other.size, dtype=np.uint64)
                shape = [-1 if dim == place else 1 for dim in range(len(piece.axes))]
                elements = elements + mixed(index + _salt(place, 1)).reshape(shape)
        slices += mixed(_sum_to(piece, places[0], mixed(elements)) + _salt(number, places[0]))
    twins = mixed(colours[axis] + mixed(slices))
    if not _ties(twins).any():
        return False
    colours[axis] = mixed(colours[axis] + _occurrence(twins))
    return True


def _occurrence(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Count the equal values that precede each value in its row."""
    order = np.argsort(values, axis=-1, kind="stable")
    ordered = np.take_along_axis(values, order, axis=-1)
    place = np.broadcast_to(np.arange(values.shape[-1]), values.shape)
    new = np.ones(values.shape, dtype=bool)
    new[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    since = place - np.maximum.accumulate(np.where(new, place, 0), axis=-1)
    result = np.empty(values.shape, dtype=np.uint64)
    np.put_along_axis(result, order, since.astype(np.uint64), axis=-1)
    return result


def _single_out(colours: NDArray[np.uint64]) -> None:
    """Give one neuron of the first tied colour a new colour, in place."""
    tied = _ties(colours)
    first = colours[tied].min()
    where = np.argwhere(tied & (colours == first))[0]
    colours[tuple(where)] = mixed(np.array([first + np.uint64(1)]))[0]
