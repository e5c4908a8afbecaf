"""Settings: how a zoo is split into training, validation and test networks."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from graph_metanetworks.errors import TaskError
from graph_metanetworks.training.job import Split

VALIDATION = 1 / 15  # the paper's 2,000 of 30,000
FEW = 40  # fewer validation networks are too noisy, unless the zoo is tiny
FAMILY, HIDDEN = "family", "hidden"
BY_SIZE = {
    "ood": "train on the smallest hidden size of each family, test on larger ones",
    "ladder": "the same, and test also on a quarter of the smallest ones, held out",
}


@dataclass(frozen=True)
class Setting:
    """How a zoo is split: a percentage of the networks to train on, or by hidden size, "ood" or "ladder".

    >>> Setting.parse("5").percent, Setting.parse("ood").percent
    (5.0, None)
    """

    name: str
    percent: float | None

    @classmethod
    def parse(cls, text: str) -> Setting:
        if text in BY_SIZE:
            return cls(text, None)
        if not re.fullmatch(r"\d+(\.\d+)?", text) or not 0 < float(text) < 100:
            raise TaskError(
                f"there is no setting '{text}': give a percentage of networks to train on, such as 50 or 5, "
                f"or {'; or '.join(f'{name} ({about})' for name, about in BY_SIZE.items())}."
            )
        return cls(text, float(text))

    @property
    def title(self) -> str:
        if self.percent is not None:
            return f"{self.name} % for training"
        return "out of distribution" if self.name == "ood" else "ladder of sizes"

    @property
    def short(self) -> str:
        return self.name if self.percent is None else f"{self.name} %"

    def split(self, table: pa.Table, usable: np.ndarray, seed: int) -> Split:
        """Split the usable networks, a mask, of a zoo with this table."""
        generator = np.random.default_rng(seed)
        everything = np.flatnonzero(usable)
        held_out = max(round(len(everything) * VALIDATION), min(FEW, len(everything) // 5))
        if self.percent is not None:
            wanted = round(len(everything) * self.percent / 100)
            held_out = min(held_out, (len(everything) - wanted) // 2)  # something is left to test
            return _random(generator.permutation(everything), wanted, held_out, self)
        small = smallest(table, usable)
        inside, outside = np.flatnonzero(usable & small), np.flatnonzero(usable & ~small)
        if not len(outside):
            raise TaskError(
                f"the setting {self.name} needs networks of several hidden sizes in one family; this zoo has "
                f"{_sizes(table, usable)}. Choose a percentage instead, such as 50."
            )
        shuffled = generator.permutation(inside)
        held_out = min(held_out, len(inside) // 4)
        tested = len(inside) // 4 if self.name == "ladder" else 0
        chosen = _random(shuffled, len(inside) - held_out - tested, held_out, self, test=bool(tested))
        return Split(chosen.train, chosen.validation, np.sort(np.concatenate([chosen.test, outside])))


def smallest(table: pa.Table, usable: np.ndarray) -> np.ndarray:  # [N]
    """Mark the networks that have the smallest hidden size of their family.

    >>> table = pa.table({"family": ["a", "a", "b", "b"], "hidden": [1, 2, 7, 5]})
    >>> smallest(table, np.ones(4, dtype=bool))
    array([ True, False, False,  True])
    """
    if HIDDEN not in table.column_names:
        raise TaskError(
            f"this setting splits by the column '{HIDDEN}', which this zoo lacks; its columns are "
            f"{', '.join(table.column_names)}. Choose a percentage instead, such as 50."
        )
    hidden, families = table[HIDDEN].to_numpy(), family_of(table)
    result = np.zeros(len(hidden), dtype=bool)
    for family in set(families[usable].tolist()):
        own = families == family
        result |= own & (hidden == hidden[own & usable].min())
    return result


def family_of(table: pa.Table) -> np.ndarray:
    """Return the family of each network, "all" where the zoo does not say."""
    if FAMILY not in table.column_names:
        return np.full(len(table), "all")
    return np.array(table[FAMILY].to_pylist(), dtype=str)


def _random(
    shuffled: np.ndarray, wanted: int, held_out: int, setting: Setting, *, test: bool = True
) -> Split:
    rest = len(shuffled) - wanted - held_out
    if wanted < 2 or held_out < 2 or rest < (2 if test else 0):
        raise TaskError(
            f"{len(shuffled):,} networks are too few for the setting {setting.name}: it would leave {wanted} "
            f"to train on, {held_out} to validate and {max(rest, 0)} to test. Build a larger zoo, or choose "
            "another percentage."
        )
    parts = np.split(shuffled, [wanted, wanted + held_out])
    return Split(*map(np.sort, parts))


def _sizes(table: pa.Table, usable: np.ndarray) -> str:
    hidden, families = table[HIDDEN].to_numpy(), family_of(table)
    pairs = sorted({(str(f), int(h)) for f, h in zip(families[usable], hidden[usable], strict=True)})
    return ", ".join(f"{family} with {size} only" for family, size in pairs)
