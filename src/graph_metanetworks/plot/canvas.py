"""A figure whose coordinates are inches, and how it is saved."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from graph_metanetworks.plot.palette import GREY, INK

MARGIN = 0.3
TITLE = 0.62  # height of the title
LARGEST = 30_000  # pixels of a side of a png


class Canvas:
    """A drawing of the given size in inches, with space for a title above and a margin around."""

    def __init__(self, width: float, height: float):
        self.width, self.height = width + 2 * MARGIN, height + 2 * MARGIN + TITLE
        self.figure = Figure(figsize=(self.width, self.height), facecolor="white")
        FigureCanvasAgg(self.figure)
        self.axes: Axes = self.figure.add_axes((0, 0, 1, 1))
        self.axes.set_axis_off()
        self.axes.set_xlim(-MARGIN, width + MARGIN)
        self.axes.set_ylim(-MARGIN, height + MARGIN + TITLE)

    def title(self, name: str, counts: str) -> None:
        top = self.height - MARGIN
        self.text(0, top - 0.42, name, size=12, weight="bold", color=INK, va="bottom")
        self.axes.text(0, top - 0.48, counts, size=8, color=GREY, va="top")

    def text(self, x: float, y: float, text: str, **style: Any) -> None:
        # a $ in a name would start math mode
        self.axes.text(x, y, text, parse_math=False, **style)

    def svg(self) -> str:
        """Return the drawing as SVG."""
        text = BytesIO()
        # ids of their own, because a notebook may show several pictures
        with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": str(id(self))}):
            self.figure.savefig(text, format="svg", metadata={"Date": None})
        return text.getvalue().decode()

    def save(self, path: Path) -> Path:
        dpi = min(200, LARGEST / max(self.width, self.height))
        # text stays text; without a date and random ids, the file is reproducible
        dated = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
        with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": path.stem}):
            self.figure.savefig(path, dpi=dpi, metadata=dated.get(path.suffix.lower()))
        return path
