"""A picture in boxes: one for each node group, with arrows for the edge blocks between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch
from matplotlib.path import Path

from graph_metanetworks.plot.canvas import Canvas
from graph_metanetworks.plot.columns import arrange
from graph_metanetworks.plot.legend import Entry, Legend
from graph_metanetworks.plot.neurons import counts
from graph_metanetworks.plot.outline import Arrow, Box, Outline, outline
from graph_metanetworks.plot.palette import GREY, INK, edge_colour, node_colour, tint
from graph_metanetworks.plot.routes import BOX, TALL, Router
from graph_metanetworks.table import shortened

if TYPE_CHECKING:
    from graph_metanetworks.graph.parameter_graph import ParameterGraph


def draw_groups(graph: ParameterGraph, *, fold: bool) -> Canvas:
    picture = outline(graph, fold=fold)
    router = Router(arrange(picture), picture.arrows)
    width = max(router.width, 4.8)
    legend = Legend(_legend(picture), width)
    canvas = Canvas(width, router.height + legend.height + 0.3)
    left, top = (width - router.width) / 2, router.height + legend.height + 0.3
    for number, arrow in enumerate(picture.arrows):
        _draw_arrow(canvas, arrow, router.path(number), left, top)
    for number, box in enumerate(picture.boxes):
        x, y = router.box(number)
        _draw_box(canvas, graph, box, left + x, top + y)
    legend.draw(canvas)
    canvas.title(graph.name, counts(graph))
    return canvas


def _draw_arrow(canvas: Canvas, arrow: Arrow, path: Path, left: float, top: float) -> None:
    colour = edge_colour(arrow.kind)
    path = Path(path.vertices + np.array([left, top]), path.codes)
    canvas.axes.add_artist(
        FancyArrowPatch(
            path=path,
            arrowstyle="-|>,head_length=3,head_width=1.6",
            mutation_scale=1,
            color=colour,
            linewidth=1.1,
            linestyle=(0, (3, 1.5)) if arrow.structural else "-",
            zorder=1,
        )
    )


def _draw_box(canvas: Canvas, graph: ParameterGraph, box: Box, x: float, y: float) -> None:
    group, colour = box.group, node_colour(box.group.kind)
    canvas.axes.add_artist(
        FancyBboxPatch(
            (x - BOX / 2, y - TALL / 2),
            BOX,
            TALL,
            boxstyle="round,pad=0,rounding_size=0.07",
            facecolor=tint(colour, 0.14),
            edgecolor=colour,
            linewidth=1.1,
            zorder=2,
        )
    )
    path, name = _split(group.name or graph.name)
    details = " · ".join(filter(None, (group.kind, f"{group.size:,}", group.activation)))
    lines = [(path, 5.5, "normal", GREY)] if path else []
    lines += [(name, 7, "bold", INK), (details, 6.2, "normal", GREY)]
    height = y + 0.065 * (len(lines) - 1) + (0.07 if box.parameters else 0)
    for index, (line, size, weight, ink) in enumerate(lines):
        canvas.text(
            x, height - 0.135 * index, line, size=size, weight=weight, color=ink, ha="center", va="center"
        )
    for index, kind in enumerate(box.parameters):
        dot = x + (index - (len(box.parameters) - 1) / 2) * 0.13
        canvas.axes.add_artist(
            Circle((dot, y - 0.235), 0.042, facecolor=node_colour(kind), edgecolor="white", lw=0.5, zorder=3)
        )
    if box.copies > 1:
        _badge(canvas, f"× {box.copies}", x + BOX / 2 - 0.02, y + TALL / 2, colour)


def _split(name: str) -> tuple[str, str]:
    """Split a module path into its beginning and its end; numbers alone make a poor end.

    >>> _split("layer.0.attention.self.query"), _split("features.3.0")
    (('layer.0.attention.self', 'query'), ('', 'features.3.0'))
    """
    parts = name.split(".")
    last = max((i for i, part in enumerate(parts) if not part.isdigit()), default=0)
    return shortened(".".join(parts[:last]), 26), shortened(".".join(parts[last:]), 18)


def _badge(canvas: Canvas, text: str, x: float, y: float, colour: str) -> None:
    style = {"boxstyle": "round,pad=0.25", "facecolor": colour, "edgecolor": "white", "linewidth": 0.6}
    canvas.text(
        x, y, text, size=6.5, weight="bold", color="white", ha="right", va="center", bbox=style, zorder=4
    )


def _legend(picture: Outline) -> list[tuple[str, list[Entry]]]:
    boxes = dict.fromkeys(box.group.kind for box in picture.boxes)
    dots = dict.fromkeys(kind for box in picture.boxes for kind in box.parameters)
    lines = {arrow.kind: arrow.structural for arrow in picture.arrows}
    return [
        (
            "nodes (a dot: one node that feeds its box)" if dots else "nodes",
            [Entry(kind, node_colour(kind), "box") for kind in boxes]
            + [Entry(kind, node_colour(kind), "circle") for kind in dots],
        ),
        ("edges", [Entry(kind, edge_colour(kind), "dashed" if s else "line") for kind, s in lines.items()]),
    ]
