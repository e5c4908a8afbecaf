"""Sheets of images: a row for each method, a column for each network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from torch import Tensor

from graph_metanetworks.plot.formats import check_suffix
from graph_metanetworks.plot.palette import GREY, INK

CELL = 1.1  # inches


@dataclass(frozen=True, eq=False)
class Row:
    """Images of one kind, with a note below each.

    Args:
        images: brightness from 0 to 1. [n, channels, height, width]
        colours: matplotlib's colour map of images with one channel.
        highest: the value that the last colour of the map stands for.
    """

    title: str
    images: Tensor
    notes: Sequence[str] = ()
    colours: str = "gray"
    highest: float = 1.0


def image_sheet(rows: Sequence[Row]) -> Figure:
    """Draw rows of images below each other."""
    columns = len(rows[0].images)
    size = (CELL * columns + 1.1, sum(CELL + 0.18 * bool(row.notes) for row in rows))
    figure = Figure(figsize=size, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(rows), columns, squeeze=False)
    for row, line in zip(rows, axes, strict=True):
        for number, (ax, image) in enumerate(zip(line, row.images, strict=True)):
            ax.set_xticks([])
            ax.set_yticks([])
            ax.spines[:].set_visible(False)
            shown = image.detach().clamp(0, None).permute(1, 2, 0).cpu().numpy()
            one = {"cmap": row.colours, "vmin": 0, "vmax": row.highest} if shown.shape[2] == 1 else {}
            ax.imshow(shown if one else shown.clip(0, 1), interpolation="nearest", **one)
            if row.notes:
                ax.set_xlabel(row.notes[number], size=7, color=GREY, labelpad=2)
        line[0].set_ylabel(row.title, size=8, color=INK, rotation=0, ha="right", va="center")
    return figure


def save_image_sheet(path: str | Path, rows: Sequence[Row]) -> Path:
    """Save a sheet as PNG, SVG or PDF."""
    path = check_suffix(path)
    image_sheet(rows).savefig(path, dpi=150)
    return path
