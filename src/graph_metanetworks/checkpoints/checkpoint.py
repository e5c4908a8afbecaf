"""The weights of a checkpoint, with where they come from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torch import Tensor

SHOWN = 10  # names that a line lists


@dataclass(frozen=True)
class Source:
    """How weights were read: what `read_checkpoint` says about them, and what reads them again."""

    path: Path
    format: str  # in words
    key: tuple[str, ...] = ()  # of the state dict inside the file
    config: Mapping[str, Any] = field(default_factory=dict)  # what the file says about its network
    names: Mapping[str, str] = field(default_factory=dict)  # of an entry, its name in the file
    dropped: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def noting(self, *notes: str) -> Source:
        return replace(self, notes=(*self.notes, *notes))


class Checkpoint(dict[str, Tensor]):
    """A state dict that knows its file: `model.load_state_dict(checkpoint)`.

    Its representation is one line that says what was read, renamed and dropped.
    """

    def __init__(self, weights: Mapping[str, Tensor], source: Source) -> None:
        super().__init__(weights)
        self.source = source

    @property
    def config(self) -> Mapping[str, Any]:
        """What the file says about its network: config.json, Lightning's hyper-parameters, metadata."""
        return self.source.config

    @property
    def dropped(self) -> tuple[str, ...]:
        """The entries of the file that the network does not have."""
        return self.source.dropped

    @property
    def summary(self) -> str:
        """One line that says what was done."""
        size = sum(value.numel() for value in self.values())
        inside = f" under '{'.'.join(self.source.key)}'" if self.source.key else ""
        read = f"{self.source.format}, {count(self, 'tensor')} of {size:,} values{inside}"
        dropped = [f"dropped {listed(self.dropped)}"] if self.dropped else []
        return f"read {self.source.path}: " + "; ".join([read, *self.source.notes, *dropped])

    def __repr__(self) -> str:
        return f"<{self.summary}>"


def count(things: Iterable[Any], noun: str) -> str:
    """Return a number with its noun.

    >>> count("a", "tensor"), count("ab", "tensor")
    ('1 tensor', '2 tensors')
    """
    number = len(list(things))
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def listed(names: Iterable[str], shown: int = SHOWN) -> str:
    """Return names with commas, the first of them if there are many.

    >>> listed("abcde", 2)
    'a, b and 3 more'
    """
    known = list(names)
    more = f" and {len(known) - shown:,} more" if len(known) > shown else ""
    return ", ".join(known[:shown]) + more
