"""How a metric is spread over the networks of a zoo, by family: as text and as a picture."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import matplotlib
import numpy as np
import pyarrow as pa
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from graph_metanetworks.errors import ZooError
from graph_metanetworks.plot.palette import GREY, INK, POSITIVE
from graph_metanetworks.table import Table

BINS = 40
LEVELS = " ▁▂▃▄▅▆▇█"
METRICS = ("test_accuracy", "accuracy", "psnr", "test_loss", "loss")  # the first that a zoo has is shown
GROUPS = ("family", "activation")


@dataclass(frozen=True, eq=False)
class Histogram:
    """The values of a metric by group, sorted into common bins."""

    metric: str
    edges: np.ndarray  # [BINS + 1]
    values: dict[str, np.ndarray]  # finite ones, by group
    unknown: dict[str, int]  # values that are missing or not finite, by group

    def counts(self, group: str) -> np.ndarray:
        return np.histogram(self.values[group], self.edges)[0]

    def text(self) -> str:
        low, high = self.edges[0], self.edges[-1]
        title = f"{self.metric}, from {low:.4g} to {high:.4g}"
        header = ("group", "networks", title, "min", "median", "max", "not finite")
        rows = [self._row(group) for group in self.values]
        right = ("networks", "min", "median", "max", "not finite")
        return Table(f"Spread of {self.metric}", header, rows, right=right).text()

    def _row(self, group: str) -> tuple[str, ...]:
        values = self.values[group]
        numbers = (values.min(), np.median(values), values.max()) if len(values) else ()
        shown = tuple(f"{number:.3f}" for number in numbers) or ("-", "-", "-")
        total = len(values) + self.unknown[group]
        return (group, f"{total:,}", bars(self.counts(group)), *shown, f"{self.unknown[group]:,}")

    def draw(self, path: Path) -> Path:
        """A picture with one histogram below the other."""
        figure = Figure(figsize=(7, 0.6 + 1.1 * len(self.values)), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots(len(self.values), 1, sharex=True, squeeze=False)[:, 0]
        for ax, group in zip(axes, self.values, strict=True):
            ax.stairs(self.counts(group), self.edges, fill=True, color=POSITIVE)
            ax.set_ylabel("networks", color=GREY, size=8)
            ax.set_title(f"{group} ({len(self.values[group]):,})", loc="left", size=9, color=INK)
            ax.spines[["top", "right"]].set_visible(False)
        axes[-1].set_xlabel(self.metric.replace("_", " "), color=INK)
        with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": path.stem}):
            figure.savefig(path, dpi=150)
        return path


def histogram(table: pa.Table, *, metric: str | None = None, by: str | None = None) -> Histogram:
    """The spread of a metric in the table of a zoo, by the values of a column; both are chosen if not given.

    >>> table = pa.table({"loss": [1.0, 2.0, 9.0, float("nan")], "family": ["a", "a", "b", "b"]})
    >>> found = histogram(table)
    >>> found.metric, found.values, found.unknown
    ('loss', {'a': array([1., 2.]), 'b': array([9.])}, {'a': 0, 'b': 1})
    """
    metric = _column(table, metric, METRICS)
    if metric is None:
        raise ZooError(f"name a --metric to show; the columns are {', '.join(table.column_names)}.")
    by = _column(table, by, GROUPS)
    values = _numbers(table, metric)
    groups = np.array([str(value) for value in table[by].to_pylist()]) if by else np.full(len(values), "all")
    finite = np.isfinite(values)
    names = sorted(set(groups.tolist()))
    return Histogram(
        metric=metric,
        edges=_edges(metric, values[finite]),
        values={name: values[(groups == name) & finite] for name in names},
        unknown={name: int(((groups == name) & ~finite).sum()) for name in names},
    )


def bars(counts: np.ndarray) -> str:
    """Counts as a line of bars; what is there is never shown as nothing.

    >>> bars(np.array([0, 1, 50, 100]))
    ' ▁▄█'
    """
    heights = np.ceil(counts / max(counts.max(), 1) * (len(LEVELS) - 1)).astype(int)
    return "".join(LEVELS[height] for height in heights)


def _column(table: pa.Table, asked: str | None, usual: tuple[str, ...]) -> str | None:
    if asked is None:
        return next((name for name in usual if name in table.column_names), None)
    if asked not in table.column_names:
        raise ZooError(f"there is no column '{asked}'; the columns are {', '.join(table.column_names)}.")
    return asked


def _numbers(table: pa.Table, metric: str) -> np.ndarray:
    try:
        return table[metric].cast(pa.float64()).to_numpy()
    except pa.ArrowInvalid:
        raise ZooError(f"the column '{metric}' has no numbers.") from None


def _edges(metric: str, values: np.ndarray) -> np.ndarray:
    if metric.endswith("accuracy") or not len(values):
        return np.linspace(0, 1, BINS + 1)
    low, high = float(values.min()), float(values.max())
    return np.linspace(low, high if high > low else low + 1, BINS + 1)
