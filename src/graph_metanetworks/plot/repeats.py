"""Find layers that repeat: `layer.0`, `layer.1`, ... with equal groups and equal parameters inside."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graph_metanetworks.graph.parameter_graph import ParameterGraph
    from graph_metanetworks.graph.parts import NodeGroup


Parts = tuple[str, ...]  # of a module path


def fold_repeats(graph: ParameterGraph) -> dict[NodeGroup, NodeGroup]:
    """Map each group to the same group in the first of a run of equal layers, or to itself.

    >>> import torch, graph_metanetworks as gmn
    >>> model = torch.nn.Sequential(*(torch.nn.Linear(n, 4, bias=False) for n in (2, 4, 4, 4)))
    >>> first = fold_repeats(gmn.trace(model, torch.randn(1, 2)))
    >>> {group.name: first[group].name for group in first}      # the last layer is the output
    {'input': 'input', '0': '0', '1': '1', '2': '1', '3': '3'}
    """
    first = {group: group for group in graph.groups}
    for prefix in _prefixes(group.name for group in graph.groups):
        inside = _inside(graph, prefix)
        layers = _by_number((group for group in graph.groups if first[group] == group), prefix)
        signed = [
            (_signature(layers[number], prefix), inside[number], layers[number]) for number in sorted(layers)
        ]
        moved: dict[NodeGroup, NodeGroup] = {}
        for _, run in groupby(signed, key=lambda layer: layer[:2]):
            original, *copies = (groups for _, _, groups in run)
            for copy in copies:
                moved.update(zip(copy, original, strict=True))
        first = {group: moved.get(to, to) for group, to in first.items()}
    return first


def _parts(name: str) -> Parts:
    return tuple(name.split("."))


def _prefixes(names: Iterable[str]) -> list[Parts]:
    """Return everything that precedes a number in some name, the shortest first."""
    paths = {_parts(name) for name in names}
    found = {path[:i] for path in paths for i, part in enumerate(path) if part.isdigit()}
    return sorted(found, key=lambda prefix: (len(prefix), prefix))


def _number(name: str, prefix: Parts) -> int | None:
    """Return the number that follows the prefix."""
    parts = _parts(name)
    if len(parts) > len(prefix) and parts[: len(prefix)] == prefix and parts[len(prefix)].isdigit():
        return int(parts[len(prefix)])
    return None


def _by_number(groups: Iterable[NodeGroup], prefix: Parts) -> dict[int, list[NodeGroup]]:
    found: dict[int, list[NodeGroup]] = defaultdict(list)
    for group in groups:
        number = _number(group.name, prefix)
        if number is not None:
            found[number].append(group)
    return found


def _inside(graph: ParameterGraph, prefix: Parts) -> dict[int, list[tuple]]:
    """Return name, kind and shape of each layer's parameters: a 1 x 1 convolution is not a 3 x 3 one."""
    found: dict[int, list[tuple]] = defaultdict(list)
    for block in graph.blocks:
        number = _number(block.parameter or "", prefix)
        if number is not None:
            found[number].append((_parts(block.parameter or "")[len(prefix) + 1 :], block.kind, block.shape))
    return found


def _signature(layer: Iterable[NodeGroup], prefix: Parts) -> list[tuple]:
    return [(_parts(g.name)[len(prefix) + 1 :], g.kind, g.size, g.activation) for g in layer]
