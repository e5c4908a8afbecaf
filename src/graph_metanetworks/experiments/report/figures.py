"""Figures of reports: drawn by matplotlib, embedded in the page."""

from __future__ import annotations

import base64
from io import BytesIO

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from graph_metanetworks.plot.palette import FAINT, GREY, INK

COLOURS = ("#1d6fb8", "#e4722b", "#3f9e57", "#c2557a", "#7c5fb0", "#b08968", "#38a3c5", "#6b7280")


def new_figure(rows: int, columns: int, *, width: float, height: float) -> tuple[Figure, list[list[Axes]]]:
    """Make a figure in inches with a grid of axes."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False)
    for ax in axes.flat:
        ax.spines[["top", "right"]].set_visible(False)
        ax.spines[["left", "bottom"]].set_color(FAINT)
        ax.tick_params(colors=GREY, labelsize=8)
    return figure, [list(row) for row in axes]


def label(ax: Axes, title: str = "", x: str = "", y: str = "") -> None:
    ax.set_title(title, loc="left", size=9, color=INK)
    ax.set_xlabel(x, size=8, color=GREY)
    ax.set_ylabel(y, size=8, color=GREY)


def as_image(figure: Figure, alt: str) -> str:
    """Return an `<img>` that holds the picture itself, with ids that cannot clash with other pictures."""
    buffer = BytesIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "font.family": "sans-serif", "svg.hashsalt": alt}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    encoded = base64.b64encode(buffer.getvalue()).decode()
    return f'<img alt="{alt}" src="data:image/svg+xml;base64,{encoded}">'


def cycle(count: int) -> list[str]:
    """Return a list of colours, repeated if there are too few."""
    return [COLOURS[number % len(COLOURS)] for number in range(count)]
