"""The kinds of INRs: how an image's kind and sizes are chosen, and how each kind is fitted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import torch

from graph_metanetworks.zoo.inr.encoded import EncodedArchitecture
from graph_metanetworks.zoo.inr.feature_grid import GridArchitecture
from graph_metanetworks.zoo.inr.fitting import FitOptions, LearningRateSchedule
from graph_metanetworks.zoo.inr.fourier import FourierArchitecture
from graph_metanetworks.zoo.inr.hash_grid import HashArchitecture
from graph_metanetworks.zoo.inr.siren import SirenArchitecture

Choice = Literal["siren", "sirens", "fourier", "grid", "hash", "mixed"]
InrArchitecture = SirenArchitecture | EncodedArchitecture

WIDTHS = (0.75, 1.0, 1.25)  # drawn widths, as multiples of the base width
DEEPER = (0, 1)  # drawn depths: additional hidden layers


@dataclass(frozen=True, slots=True)
class KindOfInr:
    """An architecture, with steps and a learning rate of Adam that suit images of about 30 x 30 pixels."""

    architecture: type[SirenArchitecture | FourierArchitecture | GridArchitecture | HashArchitecture]
    steps: int
    learning_rate: float

    def fit_options(
        self, steps: int | None, learning_rate: float | None, schedule: LearningRateSchedule
    ) -> FitOptions:
        """Return the given options, or those of the kind where there are none."""
        rate = self.learning_rate if learning_rate is None else learning_rate
        return FitOptions(self.steps if steps is None else steps, rate, schedule)


KINDS: Mapping[str, KindOfInr] = {
    "siren": KindOfInr(SirenArchitecture, steps=200, learning_rate=4e-3),
    "fourier": KindOfInr(FourierArchitecture, steps=300, learning_rate=1e-2),
    "grid": KindOfInr(GridArchitecture, steps=400, learning_rate=4e-2),
    "hash": KindOfInr(HashArchitecture, steps=300, learning_rate=2e-2),
}


@dataclass(frozen=True, slots=True)
class InrSize:
    """The kind of a network, the width of its hidden layers, and their number."""

    kind: str
    hidden: int
    layers: int


def kinds_of(choice: str) -> tuple[str, ...]:
    """Return the kinds of networks in a zoo.

    >>> kinds_of("sirens"), kinds_of("mixed")
    (('siren',), ('siren', 'fourier', 'grid', 'hash'))
    """
    if choice not in get_args(Choice):
        raise ValueError(f"there is no kind {choice!r}; choose one of {', '.join(get_args(Choice))}")
    if choice == "mixed":
        return tuple(KINDS)
    return ("siren",) if choice == "sirens" else (choice,)


def draw_size(choice: str, hidden: int, layers: int, generator: torch.Generator) -> InrSize:
    """Draw a network of "sirens" or "mixed"; of the other choices all have the given width and depth.

    >>> draw_size("grid", 32, 2, torch.Generator())
    InrSize(kind='grid', hidden=32, layers=2)
    """
    if choice not in ("sirens", "mixed"):
        return InrSize(kinds_of(choice)[0], hidden, layers)
    kinds = kinds_of(choice)
    chosen = [
        int(torch.randint(count, (), generator=generator)) for count in (len(kinds), len(WIDTHS), len(DEEPER))
    ]
    width = max(1, round(hidden * WIDTHS[chosen[1]]))
    return InrSize(kinds[chosen[0]], width, layers + DEEPER[chosen[2]])
