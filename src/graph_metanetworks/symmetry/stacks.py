"""Permutations of many networks of one architecture at once, each network by its own.

A stack of networks is itself a network with one more axis, along which nothing moves and on which all other
axes depend. So its group is made of the same axes, and everything that handles axes handles stacks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from graph_metanetworks.symmetry.action import Tables, images
from graph_metanetworks.symmetry.automorphism import Automorphism
from graph_metanetworks.symmetry.axes import (
    Axis,
    Cases,
    Concat,
    Dim,
    Product,
    find,
    ordered_parents,
    size,
    variables,
)
from graph_metanetworks.symmetry.edges import edge_permutations

if TYPE_CHECKING:
    from graph_metanetworks.symmetry.group import Symmetry


class Copies:
    """The axes of a number of networks of one architecture, stacked along a new first dimension."""

    def __init__(self, symmetry: Symmetry, count: int) -> None:
        self.symmetry, self.count = symmetry, count
        self.network = Axis(count, pinned=True, reason="networks of a stack")
        self._copies: dict[Axis, Axis] = {}
        self.parameters = {name: self.stacked(dims) for name, dims in symmetry.parameters.items()}
        self.nodes = tuple((start, self.stacked([dim])) for start, dim in symmetry.nodes)
        self.variables = tuple(self._copy(axis) for axis in symmetry.variables)

    def stacked(self, dims: Iterable[Dim]) -> tuple[Dim, ...]:
        """Return the dimensions of a stack of tensors."""
        return ([self.network], *map(self._copied, dims))

    def table_shape(self, axis: Axis) -> list[int]:
        """Return the shape of the tables of a variable. [networks, *sizes of the axes it depends on, size]"""
        return [*(parent.size for parent in ordered_parents(axis)), axis.size]

    def _copied(self, dim: Dim) -> Dim:
        return [self._copy(axis) for axis in dim]

    def _parts(self, parts: list[tuple[int, Dim]]) -> list[tuple[int, Dim]]:
        return [(length, self._copied(part)) for length, part in parts]

    def _copy(self, axis: Axis) -> Axis:
        axis = find(axis)
        if axis in self._copies:
            return self._copies[axis]
        copy = self._copies[axis] = Axis(
            axis.size, pinned=axis.pinned, generic=axis.generic, reason=axis.reason
        )
        match axis.form:
            case Product():
                copy.form = Product(self._copied(axis.form.factors))
            case Concat():
                copy.form = Concat(self._parts(axis.form.parts))
            case Cases():
                copy.form = Cases(self._copied(axis.form.over), self._parts(axis.form.parts))
            case None if not axis.pinned:
                copy.depends = frozenset([self.network, *self._copied(list(axis.depends))])
        return copy


@dataclass(frozen=True, eq=False)
class StackedAutomorphism:
    """One element of the group of an architecture for each network of a stack.

    >>> import torch, graph_metanetworks as gmn
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
    >>> graph = gmn.trace(model, torch.randn(1, 2))
    >>> batch = gmn.collate([(graph, model.state_dict())] * 4)
    >>> permutations = graph.symmetry.sample_stack(4, torch.Generator().manual_seed(0))
    >>> permuted = permutations.apply(batch.stacks[0].weights)          # four permuted copies
    >>> permuted["0.weight"].shape                                      # elements, networks, channels
    torch.Size([6, 4, 1])
    """

    copies: Copies
    tables: Tables  # [networks, *sizes of the axes it depends on, size] by axis of the copies

    @property
    def symmetry(self) -> Symmetry:
        return self.copies.symmetry

    def __len__(self) -> int:
        return self.copies.count

    def __getitem__(self, network: int) -> Automorphism:
        """Return the element of one network."""
        both = zip(self.symmetry.variables, self.copies.variables, strict=True)
        return Automorphism(self.symmetry, {axis: self.tables[copy][network] for axis, copy in both})

    def inverse(self) -> StackedAutomorphism:
        """Return the elements that undo these."""
        return StackedAutomorphism(self.copies, {axis: self._inverse(axis) for axis in self.tables})

    def _inverse(self, axis: Axis) -> Tensor:
        where = images(self.tables, [*([parent] for parent in ordered_parents(axis)), [axis]])
        table = torch.empty_like(self.tables[axis])
        table[tuple(where)] = torch.arange(axis.size, device="cpu").expand(table.shape)
        return table

    def apply(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the weights of the permuted networks, `[elements, networks, channels]` by name."""
        return {name: self._moved(name, value) for name, value in weights.items()}

    def _moved(self, name: str, value: Tensor) -> Tensor:
        dims = self.copies.parameters.get(name)
        if dims is None or not any(axis in self.tables for dim in dims for axis in variables(dim)):
            return value
        target = self.elements(name).t().to(value.device)
        return torch.empty_like(value).scatter(0, target[..., None].expand_as(value), value)

    def elements(self, name: str) -> Tensor:
        """Return where each element of a parameter goes. [networks, elements]"""
        return self._folded(self.copies.parameters[name])

    def _folded(self, dims: tuple[Dim, ...]) -> Tensor:
        _, *own = images(self.tables, dims)
        target = torch.zeros((), dtype=torch.int64, device="cpu")
        for image, dim in zip(own, dims[1:], strict=True):
            target = target * size(dim) + image
        shape = [size(dim) for dim in dims]
        return target.expand(shape).reshape(len(self), prod(shape[1:]))

    @cached_property
    def nodes(self) -> Tensor:
        """Where each node goes. [networks, N]"""
        target = torch.arange(self.symmetry.num_nodes, device="cpu").repeat(len(self), 1)
        for start, dims in self.copies.nodes:
            target[:, start : start + size(dims[1])] = start + self._folded(dims)
        return target

    @cached_property
    def edges(self) -> Tensor:
        """Where each edge goes. [networks, E]"""
        return edge_permutations(self)
