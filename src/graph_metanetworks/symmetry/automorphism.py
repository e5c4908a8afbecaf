"""One element of the symmetry group: a permutation of nodes and of everything on edges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from graph_metanetworks.errors import StateDictMismatch
from graph_metanetworks.symmetry.action import Tables, images
from graph_metanetworks.symmetry.axes import Axis, Dim, is_pinned, leaves, ordered_parents, size
from graph_metanetworks.symmetry.edges import edge_permutation

if TYPE_CHECKING:
    from graph_metanetworks.symmetry.group import Symmetry


@dataclass(frozen=True, eq=False)
class Automorphism:
    """One permutation of the nodes of a parameter graph, and of the weights on its edges.

    `s @ t` is first `t`, then `s`; `~s` undoes `s`.

    >>> import torch, graph_metanetworks as gmn
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
    >>> symmetry = gmn.trace(model, torch.randn(1, 2)).symmetry
    >>> s = symmetry.sample(torch.Generator().manual_seed(0))
    >>> s @ ~s == symmetry.identity()
    True
    """

    symmetry: Symmetry
    tables: Tables

    # -------------------------------------------------------------- the group

    def __matmul__(self, first: Automorphism) -> Automorphism:
        if self.symmetry is not first.symmetry:
            raise ValueError("only automorphisms of one graph can be composed: trace the network once.")
        tables = {}
        for axis, table in self.tables.items():
            *outer, inner = first.images([[parent] for parent in ordered_parents(axis)] + [[axis]])
            tables[axis] = table[(*outer, inner)]
        return Automorphism(self.symmetry, tables)

    def __invert__(self) -> Automorphism:
        return self.inverse()

    def inverse(self) -> Automorphism:
        """Return the automorphism that undoes this one."""
        tables = {}
        for axis, table in self.tables.items():
            where = self.images([[parent] for parent in ordered_parents(axis)] + [[axis]])
            tables[axis] = torch.empty_like(table)
            tables[axis][tuple(where)] = torch.arange(axis.size, device="cpu").expand(table.shape)
        return Automorphism(self.symmetry, tables)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Automorphism) or self.symmetry is not other.symmetry:
            return NotImplemented
        return all(torch.equal(table, other.tables[axis]) for axis, table in self.tables.items())

    def __hash__(self) -> int:
        return hash(tuple(table.numpy().tobytes() for table in self.tables.values()))

    @property
    def is_identity(self) -> bool:
        """Whether nothing moves."""
        return self == self.symmetry.identity()

    # -------------------------------------------------------------- nodes and edges

    @cached_property
    def nodes(self) -> Tensor:
        """The permutation of nodes: node `i` goes to `nodes[i]`. [N]"""
        target = torch.arange(self.symmetry.num_nodes, device="cpu")
        for start, dim in self.symmetry.nodes:
            if not is_pinned(dim):
                (image,) = self.images([dim])
                target[start : start + size(dim)] = start + image.reshape(-1)
        return target

    @cached_property
    def edges(self) -> Tensor:
        """The permutation of edges: edge `i` goes to `edges[i]`; made on request, like `edge_index`. [E]"""
        return edge_permutation(self)

    def apply_nodes(self, values: Tensor) -> Tensor:
        """Move values on nodes, `[N, ...]`."""
        return _moved(values, self.nodes, "node")

    def apply_edges(self, values: Tensor) -> Tensor:
        """Move values on edges, `[E, ...]`: weights or hidden states."""
        return _moved(values, self.edges, "edge")

    # -------------------------------------------------------------- weights

    def apply(self, state_dict: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the state dict of the permuted network, which computes the same function."""
        missing = [name for name in self.symmetry.parameters if name not in state_dict]
        if missing:
            raise StateDictMismatch(
                f"'{missing[0]}' is missing, but this automorphism permutes it. Pass the state dict of the "
                "traced architecture."
            )
        return self._permuted(state_dict)

    def apply_gradients(self, gradients: Mapping[str, Tensor | None]) -> dict[str, Tensor | None]:
        """Permute gradients, given by parameter name; any may be missing or None."""
        given = {name: gradient for name, gradient in gradients.items() if gradient is not None}
        return {**gradients, **self._permuted(given)}

    def apply_optimizer(self, state: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
        """Permute the `state_dict()` of an optimiser along with the weights.

        `names` are those of the optimiser's parameters in order, `[n for n, _ in model.named_parameters()]`
        for `SGD(model.parameters())`.
        """
        moved = {}
        for index, own in state["state"].items():
            if index >= len(names):
                raise StateDictMismatch(
                    f"the optimiser has a parameter number {index}, but only {len(names)} names were given. "
                    "Pass the names in the order of the optimiser's parameters."
                )
            moved[index] = {
                key: self._optimizer_entry(value, str(names[index])) for key, value in own.items()
            }
        return {**state, "state": moved}

    def _optimizer_entry(self, value: Any, name: str) -> Any:
        if not isinstance(value, Tensor):
            return value
        if value.numel() <= 1 or name not in self.symmetry.parameters:
            return value.clone()  # optimisers count their steps in place
        return self._permuted({name: value})[name]

    def _permuted(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        known = self.symmetry.parameters
        for name in tensors.keys() & known.keys():
            shape = tuple(size(dim) for dim in known[name])
            if tuple(tensors[name].shape) != shape:
                raise StateDictMismatch(
                    f"'{name}' is {tuple(tensors[name].shape)}, but this automorphism permutes a tensor of "
                    f"shape {shape}. Pass tensors of the traced architecture."
                )
        return {
            name: self.permute(value, known[name]) if name in known else value
            for name, value in tensors.items()
        }

    def permute(self, value: Tensor, dims: Sequence[Dim]) -> Tensor:
        """Move the element at index `k` of a tensor to the image of `k`."""
        if all(is_pinned(dim) for dim in dims):
            return value.clone()
        found = self.images(dims)
        if all(image.numel() == n for image, n in zip(found, value.shape, strict=True)):
            for index, image in enumerate(found):
                if not is_pinned(dims[index]):
                    value = value.index_select(index, image.reshape(-1).argsort().to(value.device))
            return value
        target = torch.zeros((), dtype=torch.int64, device="cpu")
        for image, length in zip(found, value.shape, strict=True):
            target = target * length + image
        target = target.expand(value.shape).reshape(-1).to(value.device)
        permuted = torch.empty_like(value, memory_format=torch.contiguous_format)
        permuted.view(-1)[target] = value.reshape(-1)
        return permuted

    def images(self, dims: Sequence[Dim]) -> list[Tensor]:
        """Return, for each dimension, the image of each index, broadcastable to the tensor's shape."""
        axes = tuple(tuple(leaves(dim)) for dim in dims)
        if axes not in self._images:
            self._images[axes] = images(self.tables, [list(dim) for dim in axes])
        return self._images[axes]

    @cached_property
    def _images(self) -> dict[tuple[tuple[Axis, ...], ...], list[Tensor]]:
        """Images found so far, by axes: many tensors share them, and one element may move many networks."""
        return {}


def _moved(values: Tensor, permutation: Tensor, what: str) -> Tensor:
    if values.dim() == 0 or values.shape[0] != permutation.numel():
        raise StateDictMismatch(
            f"{what} values of shape {tuple(values.shape)} do not fit this graph: expected "
            f"[{permutation.numel()}, ...]."
        )
    moved = torch.empty_like(values)
    moved[permutation.to(values.device)] = values
    return moved
