"""Say how the weights of a file and a network differ."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from graph_metanetworks.checkpoints.checkpoint import count

FIRST = 3  # mismatches that are named on each side
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Mismatch:
    """Names and shapes of both sides, and what has no counterpart. False if everything has."""

    file: Mapping[str, Shape]
    network: Mapping[str, Shape]
    names: Mapping[str, str]  # of the network, and those of the file
    missing: Collection[str]  # names of the network
    extra: Collection[str]  # names of the file
    misshapen: Collection[str]  # names of the network

    def __bool__(self) -> bool:
        return bool(self.missing or self.extra or self.misshapen)

    def text(self) -> str:
        free = [name for name in self.file if name not in self.names.values()]
        lines = [
            *_lines(
                f"{len(self.missing):,} of the network's {len(self.network):,} tensors are not in the file",
                [_with_nearest(name, self.network, free, self.file) for name in _first(self.missing)],
            ),
            *_lines(
                f"{len(self.extra):,} of the file's {len(self.file):,} tensors are not in the network",
                [_with_nearest(name, self.file, self.missing, self.network) for name in _first(self.extra)],
            ),
            *_lines(
                f"{count(self.misshapen, 'tensor')} of another shape",
                [
                    f"{name} {list(self.network[name])}, in the file {list(self.file[self.names[name]])}"
                    for name in _first(self.misshapen)
                ],
            ),
        ]
        return "\n".join([*lines, self._advice()])

    def _advice(self) -> str:
        if not self.missing and not self.misshapen:
            return "Drop them with --ignore-extra (ignore_extra=True), if the network does not need them."
        return "Build the network as it was trained: the same classes, sizes and options."


def _lines(title: str, items: list[str]) -> list[str]:
    return [f"{title}:", *(f"  {item}" for item in items)] if items else []


def _first(names: Collection[str]) -> list[str]:
    return list(names)[:FIRST]


def _with_nearest(
    name: str, own: Mapping[str, Shape], others: Collection[str], other: Mapping[str, Shape]
) -> str:
    alike = [one for one in others if other[one] == own[name]]
    near = [
        *get_close_matches(name, alike, n=1, cutoff=0.5),
        *get_close_matches(name, others, n=1, cutoff=0.5),
    ]
    hint = f"; nearest: {near[0]} {list(other[near[0]])}" if near else ""
    return f"{name} {list(own[name])}{hint}"
