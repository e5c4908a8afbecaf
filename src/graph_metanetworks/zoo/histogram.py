"""Histograms of a metric over the networks of a zoo, by family: as text and as a figure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from graph_metanetworks.errors import ZooError
from graph_metanetworks.extras import optional_imports
from graph_metanetworks.plot.palette import GREY, INK, POSITIVE
from graph_metanetworks.table import GAP, WIDTH, Table

BINS = 40
MIN_BINS = 16  # in a narrow terminal
LEVELS = " ▁▂▃▄▅▆▇█"
METRICS = (
    "test_accuracy",
    "accuracy",
    "psnr",
    "test_loss",
    "loss",
)  # the first that the zoo has is the default
GROUPS = ("family", "activation")


@dataclass(frozen=True, eq=False)
class Histogram:
    """The values of a metric by group, over common bins."""

    metric: str
    by: str | None  # the column that defines the groups
    edges: np.ndarray  # [BINS + 1]
    values: dict[str, np.ndarray]  # finite values by group
    not_finite: dict[str, int]  # number of missing or non-finite values by group

    def counts(self, group: str) -> np.ndarray:
        return np.histogram(self.values[group], self.edges)[0]

    def as_json(self) -> dict[str, Any]:
        return {
            "metric": self.metric,
            "by": self.by,
            "edges": self.edges.tolist(),
            "groups": {group: self._group_json(group) for group in self.values},
        }

    def _group_json(self, group: str) -> dict[str, Any]:
        numbers = dict(zip(("min", "median", "max"), self._numbers(group), strict=False))
        return {
            "networks": self._networks(group),
            "counts": self.counts(group).tolist(),
            **numbers,
            "not_finite": self.not_finite[group],
        }

    def text(self, width: int = WIDTH) -> str:
        """Return a table that fits into `width` columns, with as many bins as there is space for."""
        low, high = self.edges[0], self.edges[-1]
        right = (
            "networks",
            "min",
            "median",
            "max",
            *(("not finite",) if any(self.not_finite.values()) else ()),
        )
        rows = [self._cells(group)[: len(right) + 1] for group in self.values]
        widths = [max(map(len, column)) + len(GAP) for column in zip(("group", *right), *rows, strict=True)]
        bins = min(max(width - sum(widths) - 2 * len(GAP), MIN_BINS), BINS)
        edges = np.linspace(low, high, bins + 1)
        drawn = [bars(np.histogram(values, edges)[0]) for values in self.values.values()]
        header = ("group", "networks", f"from {low:.4g} to {high:.4g}", *right[1:])
        full = [(*row[:2], bar, *row[2:]) for row, bar in zip(rows, drawn, strict=True)]
        return Table(f"Distribution of {self.metric}", header, full, right=right).text()

    def _cells(self, group: str) -> tuple[str, ...]:
        shown = tuple(f"{number:.3f}" for number in self._numbers(group)) or ("-", "-", "-")
        return (group, f"{self._networks(group):,}", *shown, f"{self.not_finite[group]:,}")

    def _networks(self, group: str) -> int:
        return len(self.values[group]) + self.not_finite[group]

    def _numbers(self, group: str) -> tuple[float, ...]:
        """Return minimum, median and maximum, or nothing for an empty group."""
        values = self.values[group]
        return (float(values.min()), float(np.median(values)), float(values.max())) if len(values) else ()

    def draw(self, path: Path) -> Path:
        """Save a figure with one histogram below the other."""
        with optional_imports():
            import matplotlib
            from matplotlib.backends.backend_agg import FigureCanvasAgg
            from matplotlib.figure import Figure
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


def has_default_metric(table: pa.Table) -> bool:
    """Return whether the table has one of the default metrics."""
    return _column(table, None, METRICS) is not None


def histogram(table: pa.Table, *, metric: str | None = None, by: str | None = None) -> Histogram:
    """Return the histogram of a metric, grouped by a column. Both have defaults, if the table has them.

    >>> table = pa.table({"loss": [1.0, 2.0, 9.0, float("nan")], "family": ["a", "a", "b", "b"]})
    >>> found = histogram(table)
    >>> found.metric, found.values, found.not_finite
    ('loss', {'a': array([1., 2.]), 'b': array([9.])}, {'a': 0, 'b': 1})
    """
    metric = _column(table, metric, METRICS)
    if metric is None:
        raise ZooError(f"choose a --metric to show; the columns are {', '.join(table.column_names)}.")
    by = _column(table, by, GROUPS)
    values = _numbers(table, metric)
    groups = np.array([str(value) for value in table[by].to_pylist()]) if by else np.full(len(values), "all")
    finite = np.isfinite(values)
    names = sorted(set(groups.tolist()))
    return Histogram(
        metric=metric,
        by=by,
        edges=_edges(metric, values[finite]),
        values={name: values[(groups == name) & finite] for name in names},
        not_finite={name: int(((groups == name) & ~finite).sum()) for name in names},
    )


def bars(counts: np.ndarray) -> str:
    """Draw counts as a line of bars. A positive count is never drawn as empty.

    >>> bars(np.array([0, 1, 50, 100]))
    ' ▁▄█'
    """
    heights = np.ceil(counts / max(counts.max(), 1) * (len(LEVELS) - 1)).astype(int)
    return "".join(LEVELS[height] for height in heights)


def _column(table: pa.Table, requested: str | None, defaults: tuple[str, ...]) -> str | None:
    if requested is None:
        return next((name for name in defaults if name in table.column_names), None)
    if requested not in table.column_names:
        raise ZooError(f"there is no column '{requested}'; the columns are {', '.join(table.column_names)}.")
    return requested


def _numbers(table: pa.Table, metric: str) -> np.ndarray:
    try:
        return table[metric].cast(pa.float64()).to_numpy()
    except pa.ArrowInvalid:
        raise ZooError(f"the column '{metric}' is not numeric.") from None


def _edges(metric: str, values: np.ndarray) -> np.ndarray:
    if metric.endswith("accuracy") or not len(values):
        return np.linspace(0, 1, BINS + 1)
    low, high = float(values.min()), float(values.max())
    return np.linspace(low, high if high > low else low + 1, BINS + 1)
