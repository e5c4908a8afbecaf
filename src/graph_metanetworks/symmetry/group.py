"""The symmetry group of a parameter graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import factorial, lgamma, prod
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from graph_metanetworks.symmetry.action import images
from graph_metanetworks.symmetry.automorphism import Automorphism
from graph_metanetworks.symmetry.axes import Axis, Dim, ordered_parents, parents, variables
from graph_metanetworks.symmetry.edges import is_automorphism
from graph_metanetworks.symmetry.explain import explain, explain_html, order_text
from graph_metanetworks.symmetry.factors import Factor, Fixed, factors, fixed_axes
from graph_metanetworks.symmetry.stacks import Copies, StackedAutomorphism

if TYPE_CHECKING:
    from graph_metanetworks.graph.parts import EdgeBlock, NodeGroup


@dataclass(frozen=True)
class Symmetry:
    """The permutations of a network's neurons that leave its function unchanged.

    >>> import torch, graph_metanetworks as gmn
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
    >>> graph = gmn.trace(model, torch.randn(1, 2))
    >>> graph.symmetry.order()                # the three hidden neurons
    6
    >>> [(factor.size, factor.kind) for factor in graph.symmetry.factors]
    [(3, 'channels')]
    >>> permuted = graph.symmetry.sample(torch.Generator().manual_seed(0)).apply(model.state_dict())
    """

    parameters: Mapping[str, tuple[Dim, ...]]  # by name in the state dict, tied names included
    nodes: tuple[tuple[int, Dim], ...]  # (first node, axes) of each node group
    num_nodes: int
    groups: tuple[NodeGroup, ...] = ()
    blocks: tuple[EdgeBlock, ...] = ()

    # -------------------------------------------------------------- what it is

    @cached_property
    def variables(self) -> tuple[Axis, ...]:
        """The axes that are permuted, each independently of the others."""
        dims = [dim for dims in self.parameters.values() for dim in dims]
        dims += [dim for _, dim in self.nodes]
        found = {v: None for dim in dims for v in variables(dim) if not v.pinned and v.size > 1}
        return tuple(found)

    @cached_property
    def factors(self) -> tuple[Factor, ...]:
        """The symmetric groups that make up the group, those with the most permutations first."""
        return factors(self)

    @cached_property
    def fixed(self) -> tuple[Fixed, ...]:
        """What is not permuted, and why."""
        return fixed_axes(self)

    @cached_property
    def nested_dimensions(self) -> frozenset[tuple[str, int]]:
        """Dimensions of parameters that are permuted differently for each index along another dimension."""
        tables = self.identity().tables
        return frozenset(
            (name, dim)
            for name, dims in self.parameters.items()
            for dim, image in enumerate(images(tables, dims))
            if any(length > 1 for other, length in enumerate(image.shape) if other != dim)
        )

    @property
    def log_order(self) -> float:
        """Natural logarithm of the number of permutations."""
        return sum(prod(p.size for p in parents(v)) * lgamma(v.size + 1) for v in self.variables)

    def order(self) -> int:
        """Return the exact number of permutations; for a large network it has millions of digits."""
        return prod(factorial(v.size) ** prod(p.size for p in parents(v)) for v in self.variables)

    @property
    def order_text(self) -> str:
        """The number of permutations: exact if it is small, else a power of ten."""
        return order_text(self)

    def explain(self) -> str:
        """Return the factors, and what is fixed and why, as text."""
        return explain(self)

    def __repr__(self) -> str:
        return f"Symmetry(log_order={self.log_order:.4g}, free axes={len(self.variables)})"

    def _repr_html_(self) -> str:
        return explain_html(self)

    # -------------------------------------------------------------- its elements

    def identity(self) -> Automorphism:
        """Return the automorphism that moves nothing."""
        return Automorphism(self, {axis: _still(axis) for axis in self.variables})

    def sample(self, generator: torch.Generator | None = None) -> Automorphism:
        """Draw a uniformly random element of the group."""
        return Automorphism(self, _random(self.variables, generator))

    def sample_stack(self, count: int, generator: torch.Generator | None = None) -> StackedAutomorphism:
        """Draw a uniformly random element for each network of a stack."""
        copies = self.copies(count)
        return StackedAutomorphism(copies, _random(copies.variables, generator))

    def copies(self, count: int) -> Copies:
        """Return the axes of a stack of networks of this architecture."""
        if count not in self._copies:
            self._copies[count] = Copies(self, count)
        return self._copies[count]

    @cached_property
    def _copies(self) -> dict[int, Copies]:
        return {}

    def generators(self) -> tuple[Automorphism, ...]:
        """Return elements that generate the group: a transposition and a cycle for each factor.

        Within heads that are permuted themselves, one head is enough: the others are conjugate to it.
        """
        still = {axis: _still(axis) for axis in self.variables}
        found = []
        for axis in self.variables:
            copies = [range(p.size if p.pinned else 1) for p in ordered_parents(axis)]
            for copy, moved in product(product(*copies), _generating(axis.size)):
                table = still[axis].clone()
                table[copy] = moved
                found.append(Automorphism(self, {**still, axis: table}))
        return tuple(found)

    def is_automorphism(self, permutation: Tensor) -> bool:
        """Return whether a permutation of nodes, `[N]`, is an automorphism of the parameter graph.

        It must map every node to one of the same kind, depth, activation and index (inputs and outputs stay),
        edges to edges of the same kind and position, and edges that share a weight to edges that share one.
        Weights do not matter. Automorphisms outside this group are recognised too: two parallel branches of
        the same layers may change places.
        """
        return is_automorphism(self, permutation)


def _random(axes: Iterable[Axis], generator: torch.Generator | None) -> dict[Axis, Tensor]:
    """Draw a permutation along each axis for each index of the axes that it depends on."""
    tables = {}
    for axis in axes:
        shape = [parent.size for parent in ordered_parents(axis)]
        noise = torch.rand([*shape, axis.size], generator=generator, device="cpu")
        tables[axis] = noise.argsort(dim=-1)
    return tables


def _still(axis: Axis) -> Tensor:
    shape = [parent.size for parent in ordered_parents(axis)]
    return torch.arange(axis.size, device="cpu").expand(*shape, axis.size)


def _generating(length: int) -> list[Tensor]:
    """Return generators of the symmetric group: the swap of the first two, and the cycle of all."""
    swap = torch.arange(length, device="cpu")
    swap[:2] = torch.tensor([1, 0], device="cpu")
    cycle = torch.arange(length, device="cpu").roll(-1)
    return [swap] if length == 2 else [swap, cycle]
