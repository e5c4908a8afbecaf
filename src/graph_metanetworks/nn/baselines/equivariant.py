"""All linear maps between the tensors of a chain that commute with permutations of its neurons.

The neurons of a chain lie in groups: the inputs are group 0, the outputs of layer k are group k + 1. Weights
lie along two groups, biases along one. A symmetry permutes each of some groups on its own. Axes of other
groups count as channels, so a tensor has two permuted axes, one, or none.

A map commutes with all of these permutations if and only if it is a sum of maps of one kind, for each pair of
tensors and each set of permuted axes that they share: average over the other axes of the first, mix channels,
and repeat along the other axes of the second. This is the theorem of Zhou et al. (2023, "Permutation
equivariant neural functionals") and of Navon et al. (2023, "Equivariant architectures for learning in deep
weight spaces").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from graph_metanetworks.nn.mlp import add_product, product


@dataclass(frozen=True)
class Place:
    """Where a tensor `[n, *groups, c]` lies, and which of its axes are permuted.

    >>> place = Place(groups=(1, 0), sizes={0: 2}, permuted=frozenset({1}))
    >>> place.fold(torch.zeros(5, 32, 2, 7)).shape                        # the two inputs stay in place
    torch.Size([5, 32, 14])
    >>> place.unfold(torch.zeros(5, 32, 14)).shape
    torch.Size([5, 32, 2, 7])
    """

    groups: tuple[int, ...]
    sizes: dict[int, int]  # of groups that are not permuted
    permuted: frozenset[int]

    @property
    def axes(self) -> tuple[int, ...]:
        """The groups along which it is permuted."""
        return tuple(group for group in self.groups if group in self.permuted)

    @property
    def fixed(self) -> tuple[int, ...]:
        """The sizes of its other axes."""
        return tuple(self.sizes[group] for group in self.groups if group not in self.permuted)

    @property
    def _order(self) -> list[int]:
        """Permuted axes first, as dimensions of the tensor."""
        dims = range(1, 1 + len(self.groups))
        return sorted(dims, key=lambda dim: self.groups[dim - 1] not in self.permuted)

    def fold(self, values: Tensor) -> Tensor:
        """Make channels of the axes that are not permuted."""
        order, kept = self._order, 1 + len(self.axes)
        return values.permute(0, *order, -1).flatten(kept)

    def unfold(self, values: Tensor) -> Tensor:
        order, fixed = self._order, self.fixed
        values = values.unflatten(-1, (*fixed, -1)) if fixed else values
        return values.permute(0, *(1 + order.index(dim) for dim in range(1, 1 + len(order))), -1)

    def width(self, channels: int) -> int:
        """Return the number of channels after folding."""
        for size in self.fixed:
            channels *= size
        return channels


Pool = Callable[[Tensor, tuple[int, ...]], Tensor]  # reduces dimensions


def mean(values: Tensor, dims: tuple[int, ...]) -> Tensor:
    return values.mean(dims)


def pooled(tensors: Sequence[Tensor], pool: Pool = mean) -> Tensor:
    """Reduce folded tensors over all permuted axes, and join their channels. [n, sum of channels]"""
    parts = [_reduced(values, tuple(range(1, values.dim() - 1)), pool) for values in tensors]
    return torch.cat(parts, dim=-1)


def _reduced(values: Tensor, dims: tuple[int, ...], pool: Pool) -> Tensor:
    return pool(values, dims) if dims else values


class EquivariantLinear(nn.Module):
    """Every linear map between folded tensors that commutes with permutations of groups, and constants.

    >>> groups = [(1, 0), (1,), (2, 1)]                            # a layer with biases, and one without
    >>> places = [Place(own, {0: 2, 2: 1}, frozenset({1})) for own in groups]
    >>> layer = EquivariantLinear(places, [2, 1, 1], [8, 4, 4])
    >>> states = layer([torch.zeros(5, 32, width) for width in (2, 1, 1)])
    >>> [tuple(state.shape) for state in states]
    [(5, 32, 8), (5, 32, 4), (5, 32, 4)]

    Args:
        places: of each tensor.
        inputs, outputs: channels of each, folded.
        pool: how axes are reduced. With the mean the map is linear.
    """

    def __init__(
        self, places: Sequence[Place], inputs: Sequence[int], outputs: Sequence[int], *, pool: Pool = mean
    ) -> None:
        super().__init__()
        self.places, self.outputs, self.pool = tuple(places), tuple(outputs), pool
        self.along = {
            group: [number for number, place in enumerate(places) if group in place.axes]
            for group in sorted({group for place in places for group in place.axes})
        }
        self.everywhere = nn.Linear(sum(inputs), sum(outputs))
        self.by_group = nn.ModuleDict(
            {
                str(group): nn.Linear(sum(inputs[k] for k in own), sum(outputs[k] for k in own), bias=False)
                for group, own in self.along.items()
            }
        )
        self.pointwise = nn.ModuleDict(
            {
                str(number): nn.Linear(inputs[number], outputs[number], bias=False)
                for number, place in enumerate(places)
                if len(place.axes) == 2
            }
        )
        for number, place in enumerate(places):
            self._initialize(number, 1 + len(place.axes) + (len(place.axes) == 2))

    def _initialize(self, number: int, terms: int) -> None:
        """Give all terms of an output the same scale, such that their sum keeps that of the inputs (He)."""
        layers = [(self.everywhere, range(len(self.places)))]
        layers += [(self.by_group[str(group)], self.along[group]) for group in self.places[number].axes]
        if str(number) in self.pointwise:
            layers.append((self.pointwise[str(number)], [number]))
        for layer, own in layers:
            assert isinstance(layer, nn.Linear)
            start = sum(self.outputs[k] for k in own if k < number)
            rows = layer.weight.data[start : start + self.outputs[number]]
            nn.init.normal_(rows, std=(2 / (terms * rows.shape[1])) ** 0.5)
        nn.init.zeros_(self.everywhere.bias)

    def forward(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        everywhere = self.everywhere(pooled(tensors, self.pool)).split(self.outputs, dim=-1)
        along = {group: self._along(tensors, group) for group in self.along}
        results = []
        for number, place in enumerate(self.places):
            terms = [along[group][number] for group in place.axes]
            if not terms:
                results.append(everywhere[number])
                continue
            first = terms[0] + everywhere[number][:, None]
            if len(terms) == 1:
                results.append(first)
                continue
            broadcast = first[:, :, None] + terms[1][:, None]
            results.append(add_product(broadcast, tensors[number], _weight(self.pointwise, number)))
        return results

    def _along(self, tensors: Sequence[Tensor], group: int) -> dict[int, Tensor]:
        """Mix what lies along a group, `[n, size, c]` each, for the tensors along it, by number."""
        own, parts = self.along[group], []
        for number in own:
            others = (dim for dim, axis in enumerate(self.places[number].axes, 1) if axis != group)
            parts.append(_reduced(tensors[number], tuple(others), self.pool))
        mixed = product(torch.cat(parts, dim=-1), _weight(self.by_group, group))
        return dict(zip(own, mixed.split([self.outputs[k] for k in own], dim=-1), strict=True))


def _weight(layers: nn.ModuleDict, key: int) -> Tensor:
    layer = layers[str(key)]
    assert isinstance(layer, nn.Linear)
    return layer.weight
