"""A map of embeddings: their first two principal components, coloured by a label."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from graph_metanetworks.plot.formats import check_suffix
from graph_metanetworks.plot.palette import GREY, INK

CATEGORIES = 9  # with a colour of their own; others are grey
RASTERIZED = 2_000  # points: beyond, a vector file holds them as an image


def principal_components(embeddings: np.ndarray, count: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Project embeddings on their principal components, and return the share of variance of each.

    >>> points, shares = principal_components(np.array([[0.0, 0, 1], [2, 2, 1], [4, 4, 1]]))
    >>> points.round(3).tolist(), shares.round(3).tolist()
    ([[-2.828, 0.0], [0.0, 0.0], [2.828, 0.0]], [1.0, 0.0])
    """
    centred = embeddings.astype(np.float64) - embeddings.mean(0, dtype=np.float64)
    values, vectors = np.linalg.eigh(centred.T @ centred)  # ascending
    axes = vectors[:, ::-1][:, :count]
    # a sign for each axis, so that the picture is the same each time
    axes = axes * np.sign(axes[np.abs(axes).argmax(0), np.arange(axes.shape[1])])
    points = np.zeros((len(centred), count))
    points[:, : axes.shape[1]] = centred @ axes
    total = max(values.sum(), np.finfo(np.float64).tiny)
    return points + 0.0, np.pad(values[::-1][:count].clip(0) / total, (0, count - axes.shape[1]))


def draw_map(
    embeddings: np.ndarray,
    path: str | Path,
    *,
    values: Sequence[Any] | None = None,
    label: str = "",
    title: str = "",
) -> Path:
    """Draw networks as points: near ones have similar embeddings.

    Args:
        embeddings: `[n, d]`.
        values: a number or a category for each network, for the colours.
        label: what the values are.
    """
    path = check_suffix(path)
    points, shares = principal_components(embeddings)
    figure = Figure(figsize=(7, 5.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    style = {"s": 14 if len(points) < RASTERIZED else 5, "linewidths": 0, "alpha": 0.8}
    style["rasterized"] = len(points) > RASTERIZED
    if values is None:
        axes.scatter(*points.T, color=INK, **style)
    elif _are_numbers(values):
        numbers = np.array([np.nan if value is None else float(value) for value in values])
        shown = np.isfinite(numbers)
        axes.scatter(*points[~shown].T, color=GREY, **style)
        drawn = axes.scatter(*points[shown].T, c=numbers[shown], cmap="viridis", **style)
        figure.colorbar(drawn, label=label.replace("_", " "))
    else:
        _draw_categories(axes, points, [str(value) for value in values], label, style)
    for set_label, number in ((axes.set_xlabel, 0), (axes.set_ylabel, 1)):
        set_label(f"principal component {number + 1} ({shares[number]:.0%} of the variance)", color=INK)
    axes.set_title(title or f"{len(points):,} networks", loc="left", size=10, color=INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=GREY, labelsize=8)
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": path.stem}):
        figure.savefig(path, dpi=150)
    return path


def _draw_categories(
    axes: Axes, points: np.ndarray, values: list[str], label: str, style: dict[str, Any]
) -> None:
    common = [name for name, _ in Counter(values).most_common(CATEGORIES)]
    colours = matplotlib.colormaps["tab10"].colors  # pyright: ignore[reportAttributeAccessIssue]
    own = np.array([common.index(value) if value in common else -1 for value in values])
    if (own < 0).any():
        axes.scatter(*points[own < 0].T, color=GREY, label="others", **style)
    for number, name in enumerate(sorted(common)):
        chosen = own == common.index(name)
        axes.scatter(*points[chosen].T, color=colours[number], label=name, **style)
    axes.legend(title=label.replace("_", " "), frameon=False, fontsize=8, loc="best", markerscale=1.5)


def _are_numbers(values: Sequence[Any]) -> bool:
    known = [value for value in values if value is not None]
    return bool(known) and all(isinstance(v, int | float) and not isinstance(v, bool) for v in known)
