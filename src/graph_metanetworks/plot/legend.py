"""The legend under a picture: kinds of nodes, then kinds of edges, in columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Literal

from matplotlib.lines import Line2D
from matplotlib.patches import Circle, Rectangle

from graph_metanetworks.plot.canvas import Canvas
from graph_metanetworks.plot.palette import GREY, INK

COLUMN, LINE = 1.58, 0.19  # inches
SYMBOL = 0.26


@dataclass(frozen=True, slots=True)
class Entry:
    label: str
    colour: str
    symbol: Literal["circle", "box", "line", "dashed"]


@dataclass(frozen=True)
class Legend:
    """Titled lists of entries, each list laid out in as many columns as the width allows."""

    sections: Sequence[tuple[str, Sequence[Entry]]]
    width: float

    @property
    def columns(self) -> int:
        return max(1, int(self.width / COLUMN))

    @property
    def height(self) -> float:
        return sum((1.4 + self._rows(entries)) * LINE for _, entries in self.sections)

    def _rows(self, entries: Sequence[Entry]) -> int:
        return ceil(len(entries) / self.columns)

    def draw(self, canvas: Canvas) -> None:
        """Draw upwards from the bottom of the canvas."""
        top = self.height
        for title, entries in self.sections:
            canvas.text(0, top - 0.5 * LINE, title, size=7.5, weight="bold", color=GREY, va="center")
            for number, entry in enumerate(entries):
                row, column = divmod(number, self.columns)
                y = top - (1.6 + row) * LINE
                _draw_symbol(canvas, entry, column * COLUMN, y)
                canvas.text(column * COLUMN + SYMBOL, y, entry.label, size=7, color=INK, va="center")
            top -= (1.4 + self._rows(entries)) * LINE


def _draw_symbol(canvas: Canvas, entry: Entry, x: float, y: float) -> None:
    if entry.symbol == "circle":
        canvas.axes.add_artist(Circle((x + 0.09, y), 0.055, facecolor=entry.colour, edgecolor="none"))
    elif entry.symbol == "box":
        canvas.axes.add_artist(
            Rectangle((x + 0.02, y - 0.05), 0.15, 0.1, facecolor=entry.colour, edgecolor="none")
        )
    else:
        style = (0, (3, 1.5)) if entry.symbol == "dashed" else "-"
        canvas.axes.add_artist(Line2D((x, x + 0.19), (y, y), color=entry.colour, lw=1.6, ls=style))
