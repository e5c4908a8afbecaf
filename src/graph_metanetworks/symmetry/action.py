"""How tables of permutations, one per axis, act on the indices of a tensor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from graph_metanetworks.symmetry.axes import Axis, Dim, leaves, ordered_parents, referred, regions, size

# image of each index, [*sizes of the axes it depends on, size]; axes without a table stay as they are
Tables = Mapping[Axis, Tensor]


def images(tables: Tables, dims: Sequence[Dim]) -> list[Tensor]:
    """Return the image of each index, for each dimension of a tensor; broadcastable to its shape."""
    axes = [leaves(dim) for dim in dims]
    flat = [axis for dim in axes for axis in dim]
    found = _clusters(tables, flat)
    result, first = [], 0
    for dim in axes:
        total = torch.zeros([1] * len(flat), dtype=torch.int64, device="cpu")
        for position in range(first, first + len(dim)):
            total = total * flat[position].size + found[position]
        result.append(_fold(total, axes))
        first += len(dim)
    return result


def _clusters(tables: Tables, flat: Dim) -> dict[int, Tensor]:
    """Compute images of the axes by position, separately for each set of axes that depend on one another."""
    found = {}
    for cluster in _connected(flat):
        inner = _axis_images(tables, [flat[i] for i in cluster])
        for position, image in zip(cluster, inner, strict=True):
            shape = [1] * len(flat)
            for axis, length in zip(cluster, image.shape, strict=True):
                shape[axis] = length
            found[position] = image.reshape(shape)
    return found


def _axis_images(tables: Tables, axes: Dim) -> list[Tensor]:
    cut = regions(axes)
    if cut is None:
        return [_variable_image(tables, axes, i) for i in range(len(axes))]
    where, pieces = cut
    found: list[list[Tensor]] = [[] for _ in axes]
    offset = 0
    for length, dims in pieces:
        for i, image in enumerate(images(tables, dims)):
            full = [length if j == where else 1 for j in range(len(axes))]
            image = image + offset if i == where else image
            found[i].append(image.expand(torch.broadcast_shapes(image.shape, full)))
        offset += length
    return [_cat_broadcast(parts, where) for parts in found]


def _variable_image(tables: Tables, axes: Dim, index: int) -> Tensor:
    axis = axes[index]

    def coordinate(position: int) -> Tensor:
        shape = [-1 if i == position else 1 for i in range(len(axes))]
        return torch.arange(axes[position].size, device="cpu").view(shape)

    if axis.pinned or axis not in tables:
        return coordinate(index)
    outer = [coordinate(axes.index(parent)) for parent in ordered_parents(axis)]
    return tables[axis][(*outer, coordinate(index))]


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
    """Group positions of axes such that an axis is grouped with everything it depends on."""
    group = list(range(len(flat)))

    def join(i: int, j: int) -> None:
        old, new = group[j], group[i]
        group[:] = [new if g == old else g for g in group]

    for i, axis in enumerate(flat):
        for other in referred(axis) & set(flat):
            join(i, flat.index(other))
    return [[i for i, g in enumerate(group) if g == label] for label in sorted(set(group))]
