"""The symmetry group of a parameter graph, and its elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import factorial, lgamma, prod

import torch
from torch import Tensor

from graph_metanetworks.errors import StateDictMismatch
from graph_metanetworks.symmetry.axes import (
    Axis,
    Dim,
    is_pinned,
    leaves,
    ordered_parents,
    parents,
    referred,
    regions,
    size,
    variables,
)


@dataclass(frozen=True)
class Symmetry:
    """The permutations of a network's neurons that leave its function unchanged.

    >>> import torch, graph_metanetworks as gmn
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
    >>> graph = gmn.trace(model, torch.randn(1, 2))
    >>> graph.symmetry.order()                # the three hidden neurons
    6
    >>> permuted = graph.symmetry.sample(torch.Generator().manual_seed(0)).apply(model.state_dict())
    """

    parameters: Mapping[str, tuple[Dim, ...]]  # by name in the state dict, tied names included
    nodes: tuple[tuple[int, Dim], ...]  # (first node, axes) of each node group
    num_nodes: int

    @cached_property
    def variables(self) -> tuple[Axis, ...]:
        """The axes that are permuted, each independently of the others."""
        dims = [dim for dims in self.parameters.values() for dim in dims]
        dims += [dim for _, dim in self.nodes]
        found = {v: None for dim in dims for v in variables(dim) if not v.pinned and v.size > 1}
        return tuple(found)

    @property
    def log_order(self) -> float:
        """Natural logarithm of the number of permutations."""
        return sum(prod(p.size for p in parents(v)) * lgamma(v.size + 1) for v in self.variables)

    def order(self) -> int:
        """The number of permutations, exactly; for a large network it has millions of digits."""
        return prod(factorial(v.size) ** prod(p.size for p in parents(v)) for v in self.variables)

    def sample(self, generator: torch.Generator | None = None) -> Automorphism:
        """A uniformly random element of the group."""
        tables = {}
        for axis in self.variables:
            shape = [parent.size for parent in ordered_parents(axis)]
            noise = torch.rand([*shape, axis.size], generator=generator, device="cpu")
            tables[axis] = noise.argsort(dim=-1)
        return Automorphism(self, tables)

    def __repr__(self) -> str:
        return f"Symmetry(log_order={self.log_order:.4g}, free axes={len(self.variables)})"


@dataclass(frozen=True, eq=False)
class Automorphism:
    """One permutation of the nodes of a parameter graph, and of the weights on its edges."""

    symmetry: Symmetry
    tables: Mapping[Axis, Tensor]

    @cached_property
    def nodes(self) -> Tensor:
        """The permutation: node `i` goes to `nodes[i]`."""
        target = torch.arange(self.symmetry.num_nodes, device="cpu")
        for start, dim in self.symmetry.nodes:
            if not is_pinned(dim):
                (image,) = self.images([dim])
                target[start : start + size(dim)] = start + image.reshape(-1)
        return target

    def apply(self, state_dict: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The state dict of the permuted network, which computes the same function."""
        known = self.symmetry.parameters
        for name, dims in known.items():
            shape = tuple(size(dim) for dim in dims)
            if name not in state_dict or tuple(state_dict[name].shape) != shape:
                found = tuple(state_dict[name].shape) if name in state_dict else "missing"
                raise StateDictMismatch(
                    f"'{name}' is {found}, but this automorphism permutes a tensor of shape {shape}. Pass "
                    "the state dict of the traced architecture."
                )
        return {
            name: self.permute(value, known[name]) if name in known else value
            for name, value in state_dict.items()
        }

    def permute(self, value: Tensor, dims: Sequence[Dim]) -> Tensor:
        """A tensor whose element at `k` moves to the image of `k`."""
        if all(is_pinned(dim) for dim in dims):
            return value.clone()
        images = self.images(dims)
        if all(image.numel() == n for image, n in zip(images, value.shape, strict=True)):
            for index, image in enumerate(images):
                if not is_pinned(dims[index]):
                    value = value.index_select(index, image.reshape(-1).argsort().to(value.device))
            return value
        target = torch.zeros((), dtype=torch.int64, device="cpu")
        for image, length in zip(images, value.shape, strict=True):
            target = target * length + image
        target = target.expand(value.shape).reshape(-1).to(value.device)
        permuted = torch.empty_like(value, memory_format=torch.contiguous_format)
        permuted.view(-1)[target] = value.reshape(-1)
        return permuted

    def images(self, dims: Sequence[Dim]) -> list[Tensor]:
        """For each dimension the image of each index, broadcastable to the tensor's shape."""
        axes = [leaves(dim) for dim in dims]
        flat = [axis for dim in axes for axis in dim]
        images = self._clusters(flat)
        result, first = [], 0
        for dim in axes:
            total = torch.zeros([1] * len(flat), dtype=torch.int64, device="cpu")
            for position in range(first, first + len(dim)):
                total = total * flat[position].size + images[position]
            result.append(_fold(total, axes))
            first += len(dim)
        return result

    def _clusters(self, flat: Dim) -> dict[int, Tensor]:
        """Images of the axes by position, computed per set of axes that depend on one another."""
        found = {}
        for cluster in _connected(flat):
            inner = self._axis_images([flat[i] for i in cluster])
            for position, image in zip(cluster, inner, strict=True):
                shape = [1] * len(flat)
                for axis, length in zip(cluster, image.shape, strict=True):
                    shape[axis] = length
                found[position] = image.reshape(shape)
        return found

    def _axis_images(self, axes: Dim) -> list[Tensor]:
        cut = regions(axes)
        if cut is None:
            return [self._variable_image(axes, i) for i in range(len(axes))]
        where, pieces = cut
        images: list[list[Tensor]] = [[] for _ in axes]
        offset = 0
        for length, dims in pieces:
            inner = self.images(dims)
            for i, image in enumerate(inner):
                full = [length if j == where else 1 for j in range(len(axes))]
                image = image + offset if i == where else image
                images[i].append(image.expand(torch.broadcast_shapes(image.shape, full)))
            offset += length
        return [_cat_broadcast(parts, where) for parts in images]

    def _variable_image(self, axes: Dim, index: int) -> Tensor:
        axis = axes[index]

        def coordinate(position: int) -> Tensor:
            shape = [-1 if i == position else 1 for i in range(len(axes))]
            return torch.arange(axes[position].size, device="cpu").view(shape)

        if axis.pinned or axis.size == 1:
            return coordinate(index)
        outer = [coordinate(axes.index(parent)) for parent in ordered_parents(axis)]
        return self.tables[axis][(*outer, coordinate(index))]


def _fold(image: Tensor, axes: Sequence[Dim]) -> Tensor:
    """Fold the axes of each dimension into one; a dimension along which nothing varies keeps size 1."""
    shape, expanded, first = [], [], 0
    for dim in axes:
        lengths = image.shape[first : first + len(dim)]
        varies = any(length != 1 for length in lengths)
        expanded += [axis.size for axis in dim] if varies else lengths
        shape.append(size(dim) if varies else 1)
        first += len(dim)
    return image.expand(expanded).reshape(shape)


def _cat_broadcast(parts: list[Tensor], dim: int) -> Tensor:
    shapes = [[1 if i == dim else n for i, n in enumerate(part.shape)] for part in parts]
    common = torch.broadcast_shapes(*shapes)
    full = [part.expand([part.size(dim) if i == dim else n for i, n in enumerate(common)]) for part in parts]
    return torch.cat(full, dim)


def _connected(flat: Dim) -> list[list[int]]:
    """Positions of axes grouped so that an axis lies with everything it depends on."""
    group = list(range(len(flat)))

    def join(i: int, j: int) -> None:
        old, new = group[j], group[i]
        group[:] = [new if g == old else g for g in group]

    for i, axis in enumerate(flat):
        for other in referred(axis) & set(flat):
            join(i, flat.index(other))
    return [[i for i, g in enumerate(group) if g == label] for label in sorted(set(group))]
