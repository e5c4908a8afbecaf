"""Settings: how a zoo is split into training, validation and test networks."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from graph_metanetworks.errors import TaskError
from graph_metanetworks.training.job import Split

VALIDATION = 1 / 15  # the paper's 2,000 of 30,000
MANY = 12  # more values are not listed
FEW = 40  # fewer validation networks are too noisy, unless the zoo is tiny
FAMILY, HIDDEN = "family", "hidden"
BY_SIZE = {
    "ood": "train on the smallest hidden size of each family, test on larger ones",
    "ladder": "the same, and test also on a quarter of the smallest ones, held out",
}


@dataclass(frozen=True)
class Setting:
    """How a zoo is split.

    By a percentage of the networks to train on; by hidden size, "ood" or "ladder"; or by a value of a column
    that is left out of training, as in "kind!=hash".

    >>> Setting.parse("5").percent, Setting.parse("ood").percent, Setting.parse("kind!=hash").left_out
    (5.0, None, LeftOut(column='kind', value='hash'))
    """

    name: str
    percent: float | None
    left_out: LeftOut | None = None

    @classmethod
    def parse(cls, text: str) -> Setting:
        if text in BY_SIZE:
            return cls(text, None)
        if found := re.fullmatch(r"(\w+)!=([^/\\]+)", text):
            return cls(text, None, LeftOut(*found.groups()))
        if not re.fullmatch(r"\d+(\.\d+)?", text) or not 0 < float(text) < 100:
            by_size = "; or ".join(f"{name} ({about})" for name, about in BY_SIZE.items())
            raise TaskError(
                f"there is no setting '{text}': give a percentage of networks to train on, such as 50 or 5; "
                f"or {by_size}; or a column and a value to leave out, such as kind!=hash (train on other "
                "kinds, test on hash and on a quarter of the others, held out)."
            )
        return cls(text, float(text))

    @property
    def title(self) -> str:
        if self.percent is not None:
            return f"{self.name} % for training"
        if self.left_out is not None:
            return f"trained without {self.left_out.column} {self.left_out.value}"
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
        known = self._known(table, usable)
        inside, outside = np.flatnonzero(usable & known), np.flatnonzero(usable & ~known)
        shuffled = generator.permutation(inside)
        held_out = min(held_out, len(inside) // 4)
        tested = 0 if self.name == "ood" else len(inside) // 4
        chosen = _random(shuffled, len(inside) - held_out - tested, held_out, self, test=bool(tested))
        return Split(chosen.train, chosen.validation, np.sort(np.concatenate([chosen.test, outside])))

    def _known(self, table: pa.Table, usable: np.ndarray) -> np.ndarray:  # [N]
        """Mark the networks that are like those to train on, by hidden size or by a column."""
        if self.left_out is not None:
            return ~self.left_out.among(table, usable)
        small = smallest(table, usable)
        if not (usable & ~small).any():
            raise TaskError(
                f"the setting {self.name} needs networks of several hidden sizes in one family; this zoo has "
                f"{_sizes(table, usable)}. Choose a percentage instead, such as 50."
            )
        return small


@dataclass(frozen=True)
class LeftOut:
    """The networks with this value, as text, in a column of the table.

    >>> table = pa.table({"kind": ["siren", "hash", "siren"]})
    >>> LeftOut("kind", "hash").among(table, np.ones(3, dtype=bool))
    array([False,  True, False])
    """

    column: str
    value: str

    def among(self, table: pa.Table, usable: np.ndarray) -> np.ndarray:  # [N]
        """Mark these networks; it is an error if there are none, or no others, that are usable."""
        values = column_of(table, self.column)
        found = values == self.value
        if not (usable & found).any() or not (usable & ~found).any():
            known = sorted(set(values[usable].tolist()))
            shown = ", ".join(known[:MANY]) + (f" and {len(known) - MANY} more" if len(known) > MANY else "")
            raise TaskError(
                f"the setting {self.column}!={self.value} needs networks with this {self.column} and others; "
                f"this zoo has {shown}."
            )
        return found


def column_of(table: pa.Table, column: str) -> np.ndarray:  # [N]
    """Return the values of a column as text."""
    require_column(table, column)
    return np.array([str(value) for value in table[column].to_pylist()])


def require_column(table: pa.Table, column: str) -> None:
    if column not in table.column_names:
        raise TaskError(
            f"this setting splits by the column '{column}', which this zoo lacks; its columns are "
            f"{', '.join(table.column_names)}. Choose a percentage instead, such as 50."
        )


def smallest(table: pa.Table, usable: np.ndarray) -> np.ndarray:  # [N]
    """Mark the networks that have the smallest hidden size of their family.

    >>> table = pa.table({"family": ["a", "a", "b", "b"], "hidden": [1, 2, 7, 5]})
    >>> smallest(table, np.ones(4, dtype=bool))
    array([ True, False, False,  True])
    """
    require_column(table, HIDDEN)
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
