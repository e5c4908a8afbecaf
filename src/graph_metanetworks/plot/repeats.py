"""Find layers that repeat: `layer.0`, `layer.1`, ... with the same groups inside."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from graph_metanetworks.graph import NodeGroup

Prefix = tuple[str, ...]


def fold_repeats(groups: Sequence[NodeGroup]) -> dict[NodeGroup, NodeGroup]:
    """For each group the same group in the first of a run of equal layers, or the group itself.

    >>> layers = [NodeGroup(f"layer.{i}.fc", "neuron", 64, 64 * i, i) for i in range(3)]
    >>> head = NodeGroup("head", "output", 10, 192, 3)
    >>> [group.name for group in fold_repeats([*layers, head]).values()]
    ['layer.0.fc', 'layer.0.fc', 'layer.0.fc', 'head']
    """
    first = {group: group for group in groups}
    for prefix in _prefixes(groups):
        layers = _layers([group for group in groups if first[group] == group], prefix)
        for _, run in groupby(layers, key=lambda layer: _signature(layer, prefix)):
            original, *copies = run
            for copy in copies:
                moved = dict(zip(copy, original, strict=True))
                first = {group: moved.get(to, to) for group, to in first.items()}
    return first


def _parts(name: str) -> Prefix:
    return tuple(name.split("."))


def _prefixes(groups: Iterable[NodeGroup]) -> list[Prefix]:
    """Everything that stands before a number in some name, the shortest first."""
    found = {
        parts[:i]
        for group in groups
        for parts in [_parts(group.name)]
        for i, part in enumerate(parts)
        if part.isdigit()
    }
    return sorted(found, key=lambda prefix: (len(prefix), prefix))


def _layers(groups: Sequence[NodeGroup], prefix: Prefix) -> list[list[NodeGroup]]:
    """The groups under `prefix` by the number that follows it."""
    depth = len(prefix)
    found: dict[int, list[NodeGroup]] = {}
    for group in groups:
        parts = _parts(group.name)
        if parts[:depth] == prefix and len(parts) > depth and parts[depth].isdigit():
            found.setdefault(int(parts[depth]), []).append(group)
    return [found[number] for number in sorted(found)]


def _signature(layer: Sequence[NodeGroup], prefix: Prefix) -> list[tuple]:
    """What must be equal for two layers to be drawn as one."""
    depth = len(prefix) + 1
    return [(_parts(g.name)[depth:], g.kind, g.size, g.activation) for g in layer]
