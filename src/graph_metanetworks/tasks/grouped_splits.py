"""Splits that keep networks of one group together, and respect a split that the zoo brings along."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from graph_metanetworks.errors import TaskError
from graph_metanetworks.tasks.splits import VALIDATION, Setting
from graph_metanetworks.training.job import Split

OWN, SPLIT, TRAIN = "own", "split", "train"
WITHOUT = 80.0  # percent to train on if the zoo has no split of its own


@dataclass(frozen=True)
class GroupedSetting(Setting):
    """A percentage of networks to train on; "own", the column "split" of the zoo; or a value to leave out.

    Networks with equal entries in the column `group`, such as several INRs of one image, stay in one part.
    "kind!=hash" is as "own", but no hash grid is trained or validated on. So the same networks are tested.

    >>> table = pa.table({"image": [0, 0, 1, 1, 2, 2, 3, 3], "split": ["train"] * 6 + ["test"] * 2})
    >>> split = GroupedSetting.of("own", "image").split(table, np.ones(8, dtype=bool), 0)
    >>> [len(part) for part in split.parts().values()], split.test.tolist()
    ([4, 2, 2], [6, 7])
    """

    group: str = ""

    @staticmethod
    def of(name: str, group: str) -> GroupedSetting:
        found = None
        with suppress(TaskError):  # it would name settings that are not for classes
            found = Setting(OWN, None) if name == OWN else Setting.parse(name)
        if found is None or (found.percent is None and found.left_out is None and name != OWN):
            raise TaskError(
                f"there is no setting '{name}' here: give {OWN}, a percentage below 100 such as 80, or a "
                "column and a value to leave out, such as kind!=hash."
            )
        return GroupedSetting(name, found.percent, found.left_out, group=group)

    @property
    def title(self) -> str:
        return "the zoo's own split" if self.name == OWN else super().title

    def split(self, table: pa.Table, usable: np.ndarray, seed: int) -> Split:
        generator = np.random.default_rng(seed)
        if self.percent is None and SPLIT in table.column_names:
            trained = np.array(table[SPLIT].to_pylist()) == TRAIN
            pool, test = usable & trained, np.flatnonzero(usable & ~trained)
            shares = (1 - VALIDATION, VALIDATION)
        else:
            pool, test = usable, np.zeros(0, dtype=np.int64)
            percent = WITHOUT if self.percent is None else self.percent
            shares = (percent / 100, min(VALIDATION, (1 - percent / 100) / 2))
        parts = _parts(np.flatnonzero(pool), self._groups(table)[pool], shares, generator)
        if self.left_out is not None:
            dropped = self.left_out.among(table, usable)
            parts[:2] = (part[~dropped[part]] for part in parts[:2])
        found = Split(parts[0], parts[1], np.sort(np.concatenate([parts[2], test])))
        if any(not len(own) for own in found.parts().values()):
            sizes = ", ".join(f"{len(own):,} to {name}" for name, own in found.parts().items())
            raise TaskError(
                f"the setting {self.name} would leave {sizes}. Build a larger zoo, or choose a percentage "
                "such as --setting 80."
            )
        return found

    def _groups(self, table: pa.Table) -> np.ndarray:  # [N]
        if self.group not in table.column_names:
            return np.arange(len(table))
        values = np.array([str(value) for value in table[self.group].to_pylist()])
        return np.unique(values, return_inverse=True)[1]


def _parts(
    positions: np.ndarray, groups: np.ndarray, shares: tuple[float, float], generator: np.random.Generator
) -> list[np.ndarray]:
    """Deal whole groups out to training, validation and the rest, by their shares of all groups."""
    names = generator.permutation(np.unique(groups))
    train, validation = (round(share * len(names)) for share in shares)
    validation = max(validation, 1)
    if sum(shares) >= 1:
        train = len(names) - validation  # nothing is left
    dealt = np.split(names, [train, train + validation])
    return [positions[np.isin(groups, own)] for own in dealt]
