"""Options of contrastive learning, and the settings that it adds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pyarrow as pa

from graph_metanetworks.errors import TaskError
from graph_metanetworks.tasks.contrastive.views import KINDS, Kind, Views
from graph_metanetworks.tasks.options import TaskOptions
from graph_metanetworks.tasks.splits import Setting
from graph_metanetworks.training.job import Split
from graph_metanetworks.training.options import option

SUPERVISED = "supervised"
NO_COLUMNS = "none"
PERCENT = "80"


@dataclass(frozen=True)
class Options(TaskOptions):
    """Options that affect the result."""

    columns: str = option(
        "amplitude,frequency", "Columns that a linear regression predicts from embeddings; or none."
    )
    views: Kind = option("described", f"How views are made: {', '.join(KINDS)}.")
    noise: float = option(0.2, "Noise of views, in standard deviations of each tensor.")
    mask: float = option(0.5, "Share of weights that are masked; not for the views noise.")
    symmetries: bool = option(False, "Move each view by random symmetries of its network.")
    embedding: int = option(16, "Width of embeddings and of the projector.", least=1)
    temperature: float = option(0.1, "Temperature of the contrastive loss.")
    select: Literal["loss", "error"] = option(
        "loss", "Keep the weights of the best validation loss (no labels needed), or regression error."
    )
    batch_size: int = option(128, "Networks per batch: each is told from all others.", least=2)
    steps: int = option(1000, "Training steps, one batch each.", least=1)
    weight_decay: float = option(5e-4, "Weight decay of AdamW, that of the paper by default.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.views not in KINDS:
            raise TaskError(f"there are no views '{self.views}': choose {', '.join(KINDS)}.")
        if self.select not in ("loss", "error"):
            raise TaskError(f"cannot select by '{self.select}': choose loss or error.")
        if self.batch_size < 2:
            raise TaskError("contrastive learning tells networks of a batch apart: --batch-size at least 2.")
        if not (self.noise >= 0 and 0 <= self.mask < 1 and self.temperature > 0 and self.embedding > 0):
            raise TaskError(
                "noise must be 0 or more, mask in [0, 1), temperature and embedding positive; "
                f"not {self.noise:g}, {self.mask:g}, {self.temperature:g} and {self.embedding}."
            )
        if not self.found_method.by_gradient:
            raise TaskError(f"{self.method} is not trained by gradients, so it cannot learn from views.")
        if not self.column_names and (self.supervised or self.select == "error"):
            raise TaskError("supervised training and --select error need --columns of the zoo to predict.")

    @property
    def column_names(self) -> tuple[str, ...]:
        """The columns to predict.

        >>> Options(columns="amplitude, frequency").column_names, Options(columns="none").column_names
        (('amplitude', 'frequency'), ())
        """
        names = tuple(name.strip() for name in self.columns.split(","))
        return () if names == (NO_COLUMNS,) else names

    @property
    def supervised(self) -> bool:
        return self.setting.partition("-")[0] == SUPERVISED

    @property
    def made_views(self) -> Views:
        return Views(self.views, self.noise, self.mask, self.symmetries)


@dataclass(frozen=True)
class SupervisedSetting(Setting):
    """The same encoder trained on the columns themselves: its error with labels.

    >>> find_setting("supervised").title, find_setting("supervised-5").percent
    ('trained on the columns, 80 % for training', 5.0)
    """

    inner: Setting = field(default_factory=lambda: Setting.parse(PERCENT))  # how the zoo is split

    @property
    def title(self) -> str:
        return f"trained on the columns, {self.inner.title}"

    @property
    def short(self) -> str:
        return self.name

    def split(self, table: pa.Table, usable: np.ndarray, seed: int) -> Split:
        return self.inner.split(table, usable, seed)


def find_setting(name: str) -> Setting:
    """Find a setting by its name; `supervised-` before it trains on the columns of the zoo."""
    kind, _, rest = name.partition("-")
    if kind != SUPERVISED:
        try:
            return Setting.parse(name)
        except TaskError as error:
            raise TaskError(f"{error} Or {SUPERVISED}, {SUPERVISED}-50, ...: train on the columns.") from None
    inner = Setting.parse(rest or PERCENT)
    return SupervisedSetting(name, inner.percent, inner.left_out, inner)
