"""Permute one network to match another: weight matching over the factors of the group."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from math import sqrt
from typing import TYPE_CHECKING

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from torch import Tensor

from graph_metanetworks.symmetry.automorphism import Automorphism
from graph_metanetworks.symmetry.axes import Axis, variables
from graph_metanetworks.symmetry.canonical import canonical_automorphism
from graph_metanetworks.symmetry.matching import Matching, Pair, Tree, still, trees
from graph_metanetworks.symmetry.pieces import is_free, pieces
from graph_metanetworks.symmetry.stacks import StackedAutomorphism

if TYPE_CHECKING:
    from graph_metanetworks.graph.parameter_graph import ParameterGraph
    from graph_metanetworks.symmetry.group import Symmetry

SMALLEST_GAIN = 1e-9  # of a step, relative to the norms of the two networks


@dataclass(frozen=True)
class Alignment:
    """The aligned weights, the automorphism that led to them, and the distance before and after."""

    state_dict: dict[str, Tensor] = field(repr=False)
    automorphism: Automorphism = field(repr=False)
    distance_before: float
    distance: float


def align(
    graph: ParameterGraph,
    reference: Mapping[str, Tensor],
    other: Mapping[str, Tensor],
    *,
    seed: int = 0,
    sweeps: int = 50,
    progress: bool = True,
) -> Alignment:
    """Permute `other` so that its weights are as close to `reference` as can be found.

    This is coordinate descent on the distance of all weights: the best permutation of each factor of the
    symmetry group is found by linear assignment, heads together with their dimensions. It starts from a guess
    that works inwards from what is fixed, or from `other` itself if that is closer. A permuted copy of the
    reference is recognised and undone exactly. The result is never further away than `other`, and is
    deterministic for a given seed.

    Args:
        seed: determines the order in which factors are visited.
        sweeps: maximum number of passes over all factors; stops earlier when none improves.
        progress: whether to show a bar if standard output is a terminal.

    >>> import torch, graph_metanetworks as gmn
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 9), torch.nn.ReLU(), torch.nn.Linear(9, 1))
    >>> graph = gmn.trace(model, torch.randn(1, 2))
    >>> copy = graph.symmetry.sample(torch.Generator().manual_seed(0)).apply(model.state_dict())
    >>> found = gmn.align(graph, model.state_dict(), copy)
    >>> found.distance_before > 1, found.distance
    (True, 0.0)
    """
    _check_finite(graph.checked(reference))
    _check_finite(graph.checked(other))
    found = _copied(graph.symmetry, reference, other)
    if found is None:
        found = _descended(graph, reference, other, seed=seed, sweeps=sweeps, progress=progress)
    aligned = found.apply(other)
    names = [parameter.name for parameter in graph.parameters]
    before, after = (sqrt(sum(_squared(reference[n], own[n]) for n in names)) for own in (other, aligned))
    if after > before:  # gains are rounded, so they may be wrong in the last digits
        return Alignment(dict(other), graph.symmetry.identity(), before, before)
    return Alignment(aligned, found, before, after)


def interpolate(first: Mapping[str, Tensor], second: Mapping[str, Tensor], t: float) -> dict[str, Tensor]:
    """Return the weights at `t` on the line from the first network (0) to the second (1).

    Integers, such as batch counters, are copied from the first. Running statistics are interpolated too; a
    network with batch norm works better if they are re-estimated.

    >>> interpolate({"w": torch.zeros(2)}, {"w": torch.ones(2)}, 0.25)
    {'w': tensor([0.2500, 0.2500])}
    """
    return {
        name: torch.lerp(value, second[name], t) if value.is_floating_point() else value.clone()
        for name, value in first.items()
    }


def _check_finite(weights: Mapping[str, Tensor]) -> None:
    for name, value in weights.items():
        if not bool(value.isfinite().all()):
            raise ValueError(f"'{name}' is not finite, so it cannot be compared. Did training diverge?")


def _squared(first: Tensor, second: Tensor) -> float:
    return float((first.double() - second.double()).square().sum())


def _copied(
    symmetry: Symmetry, reference: Mapping[str, Tensor], other: Mapping[str, Tensor]
) -> Automorphism | None:
    """Return the automorphism from a permuted copy of the reference, or None if it is not one."""
    ours, theirs = (canonical_automorphism(symmetry, weights) for weights in (reference, other))
    found = ~ours @ theirs
    undone = found.apply(other)
    return found if all(torch.equal(undone[n], reference[n]) for n in symmetry.parameters) else None


def _descended(
    graph: ParameterGraph,
    reference: Mapping[str, Tensor],
    other: Mapping[str, Tensor],
    *,
    seed: int,
    sweeps: int,
    progress: bool,
) -> Automorphism:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[gain]}"),
        TimeElapsedColumn(),
    )
    shown = progress and Console().is_terminal
    descent = Descent(graph, reference, {name: value[None] for name, value in other.items()})
    with Progress(*columns, disable=not shown, transient=True) as bar:
        task = bar.add_task("align", total=len(descent.trees), gain="")
        for done in descent.inwards():
            bar.update(task, completed=done)
        descent.start_again_where_worse()
        for done in descent.sweep(seed, sweeps):
            bar.update(task, completed=done, gain=f"{float(descent.gains):.4g}")
    return descent.permutations[0]


@torch.no_grad()
def align_stack(
    graph: ParameterGraph,
    reference: Mapping[str, Tensor],
    weights: Mapping[str, Tensor],
    *,
    seed: int = 0,
    sweeps: int = 50,
) -> StackedAutomorphism:
    """Return permutations that take each network of a stack close to `reference`, as `align` does.

    `weights` are `[elements, networks, channels]` by name; the first channel decides.

    >>> import torch, graph_metanetworks as gmn
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 9), torch.nn.ReLU(), torch.nn.Linear(9, 1))
    >>> graph = gmn.trace(model, torch.randn(1, 2))
    >>> stack = gmn.collate([(graph, model.state_dict())] * 3).stacks[0]
    >>> permuted = graph.symmetry.sample_stack(3).apply(stack.weights)
    >>> aligned = align_stack(graph, model.state_dict(), permuted).apply(permuted)
    >>> all(torch.equal(aligned[name], stack.weights[name]) for name in aligned)
    True
    """
    others = {p.name: weights[p.name][..., 0].t().reshape(-1, *p.shape) for p in graph.parameters}
    descent = Descent(graph, reference, others)
    deque(descent.inwards(), maxlen=0)
    descent.start_again_where_worse()
    deque(descent.sweep(seed, sweeps), maxlen=0)
    return descent.permutations


class Descent:
    """The state of descents for some networks `others`: how they are permuted so far, and what that gained.

    Tensors of `others` are `[networks, *shape]`. Each network takes only the steps that it gains from.
    """

    def __init__(self, graph: ParameterGraph, reference: Mapping[str, Tensor], others: Mapping[str, Tensor]):
        names = [p.name for p in graph.parameters]
        self.networks = len(others[names[0]])
        self.copies = graph.symmetry.copies(self.networks)
        self.automorphism = Automorphism(
            graph.symmetry, {axis: still(axis) for axis in self.copies.variables}
        )
        self.trees = trees(self.copies.variables)
        self._dims = {name: self.copies.parameters[name] for name in names}
        self._others = {name: _computable(others[name]) for name in names}
        self._reference = {
            name: _computable(reference[name]).expand_as(value) for name, value in self._others.items()
        }
        self._current = dict(self._others)
        self._products = {name: self._product(name, value) for name, value in self._current.items()}
        self._at_first = sum(self._products.values(), torch.zeros(self.networks, dtype=torch.float64))
        self._touched = {tree: self._parameters_with(tree) for tree in self.trees}
        everything = (*self._reference.values(), *self._current.values())
        self._smallest = SMALLEST_GAIN * torch.stack([_squares(weights) for weights in everything]).sum(0)

    @property
    def permutations(self) -> StackedAutomorphism:
        return StackedAutomorphism(self.copies, self.automorphism.tables)

    @property
    def gains(self) -> Tensor:
        """How much larger the inner product of each network with the reference became. [networks]"""
        return sum(self._products.values(), -self._at_first)

    def _parameters_with(self, tree: Tree) -> list[str]:
        axes = set(tree.axes)
        return [n for n, dims in self._dims.items() if any(axes & set(variables(dim)) for dim in dims)]

    # -------------------------------------------------------------- the two phases

    def inwards(self) -> Iterator[int]:
        """Match what touches fixed axes first, then what touches that, by weights whose other ends are known.

        A sweep from a random start is misled by axes that are not aligned yet; this is not.
        """
        known: set[Axis] = set()
        waiting = list(self.trees)
        while waiting:
            evidence = [sum(pair[0].value.numel() for pair in self.pairs(t, known)) for t in waiting]
            tree = waiting.pop(max(range(len(waiting)), key=lambda i: evidence[i] / waiting[i].size))
            self._move(tree, Matching.of(tree, self.pairs(tree, known)).tables())
            known |= set(tree.axes)
            yield len(self.trees) - len(waiting)

    def start_again_where_worse(self) -> None:
        """Undo all steps of networks that were closer to the reference at first."""
        better = self.gains >= 0
        self._current = {n: _chosen(better, own, self._others[n]) for n, own in self._current.items()}
        self._products = {name: self._product(name, value) for name, value in self._current.items()}
        tables = self.automorphism.tables.items()
        self.automorphism = Automorphism(
            self.automorphism.symmetry, {axis: _chosen(better, own, still(axis)) for axis, own in tables}
        )

    def sweep(self, seed: int, sweeps: int) -> Iterator[int]:
        """Visit the factors in random order until none improves."""
        generator = torch.Generator().manual_seed(seed)
        stale = dict.fromkeys(self.trees)
        for _ in range(sweeps):
            for index in torch.randperm(len(self.trees), generator=generator).tolist():
                tree = self.trees[index]
                if tree not in stale:
                    continue
                del stale[tree]
                if self.improve(tree):
                    stale.update((other, None) for other in self.trees if self._neighbours(tree, other))
                yield len(self.trees) - len(stale)
            if not stale:
                return

    def _neighbours(self, tree: Tree, other: Tree) -> bool:
        return bool(set(self._touched[tree]) & set(self._touched[other]))

    # -------------------------------------------------------------- one step

    def improve(self, tree: Tree) -> bool:
        """Take the best step along one factor if it gains anything."""
        for pairs in self._views(tree):
            tables = Matching.of(tree, pairs).tables()
            if self._move(tree, tables, at_least=self._smallest):
                return True
        return False

    def _views(self, tree: Tree) -> Iterator[list[Pair]]:
        """Yield what to match: everything; and if an axis occurs twice in a tensor, all but those tensors."""
        pairs = list(self.pairs(tree))
        yield pairs
        once = [pair for pair in pairs if all(len(pair[0].places(axis)) < 2 for axis in tree.axes)]
        if len(once) < len(pairs):
            yield once

    def _move(self, tree: Tree, tables: dict[Axis, Tensor], *, at_least: Tensor | None = None) -> bool:
        """Permute along a tree the networks that gain enough; return whether there are any."""
        moved = self._stepped(tree, tables)
        if at_least is not None:
            before = sum(self._products[name] for name in moved)
            gains = sum(self._product(name, value) for name, value in moved.items()) - before
            enough = gains > at_least
            if not enough.any():
                return False
            if not enough.all():
                tables = {axis: _chosen(enough, table, still(axis)) for axis, table in tables.items()}
                moved = {name: _chosen(enough, own, self._current[name]) for name, own in moved.items()}
        self._current |= moved
        self._products |= {name: self._product(name, value) for name, value in moved.items()}
        step = Automorphism(self.automorphism.symmetry, tables)
        composed = (step @ self.automorphism).tables  # of this tree; nothing else depends on it
        self.automorphism = Automorphism(step.symmetry, {**self.automorphism.tables, **composed})
        return True

    def _stepped(self, tree: Tree, tables: dict[Axis, Tensor]) -> dict[str, Tensor]:
        """Return the weights that a step changes, after it."""
        step = Automorphism(self.automorphism.symmetry, tables)
        return {name: step.permute(self._current[name], self._dims[name]) for name in self._touched[tree]}

    def _product(self, name: str, value: Tensor) -> Tensor:  # [networks]
        return (self._reference[name] * value).reshape(self.networks, -1).sum(1, dtype=torch.float64)

    def pairs(self, tree: Tree, known: Collection[Axis] | None = None) -> Iterator[Pair]:
        """Yield pieces of both networks along a tree; with `known`, only those whose other axes are known."""
        axes = set(tree.axes)
        for name in self._touched[tree]:
            dims = self._dims[name]
            both = zip(pieces(self._reference[name], dims), pieces(self._current[name], dims), strict=True)
            for ours, theirs in both:
                others = {axis for axis in ours.axes if is_free(axis)} - axes
                if axes & set(ours.axes) and (known is None or others <= set(known)):
                    yield ours, theirs


def _chosen(mask: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Choose for each network. [networks], [networks, ...]"""
    return torch.where(mask.view(-1, *[1] * (first.dim() - 1)), first, second)


def _squares(weights: Tensor) -> Tensor:  # [networks]
    return weights.reshape(len(weights), -1).square().sum(1, dtype=torch.float64)


def _computable(value: Tensor) -> Tensor:
    value = value.detach().cpu()
    return value if value.dtype == torch.float64 else value.float()
