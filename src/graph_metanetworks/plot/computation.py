"""A picture of a computation graph: every neuron, and one colour for all edges that share a weight."""

from __future__ import annotations

from colorsys import hls_to_rgb
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.collections import EllipseCollection, LineCollection
from matplotlib.colors import to_hex

from graph_metanetworks.plot.canvas import Canvas
from graph_metanetworks.plot.formats import check_suffix
from graph_metanetworks.plot.legend import Entry, Legend
from graph_metanetworks.plot.palette import GREY, node_colour

if TYPE_CHECKING:
    from graph_metanetworks.computation_graph.graph import ComputationGraph, Layer

MAX_EDGES = 2500  # more than these are unreadable
MAX_NAMES = 12  # weights that are named in the legend
SPACING, PITCH, GAP = 0.27, 2.2, 0.25  # inches between nodes, columns and layers
WEIGHTS = ("#2f6fde", "#d6453d", "#3f9e57", "#e0a100", "#8e63c7", "#1b998b", "#e4722b", "#c2557a")
KINDS = {"input": "input", "hidden": "neuron", "output": "output", "bias": "linear bias"}


def draw_computation(graph: ComputationGraph, path: str | Path) -> Path:
    """Draw a small computation graph to an svg, png or pdf file."""
    path = check_suffix(path)
    if graph.num_edges > MAX_EDGES:
        raise ValueError(
            f"{graph!r} has more than {MAX_EDGES:,} edges, too many for a picture. Draw the parameter graph, "
            "gmn.trace(model, x).plot(path)."
        )
    columns = _columns(graph)
    height = max(_height(column) for column in columns)
    width = max(PITCH * (len(columns) - 1) + 0.8, 4.8)
    legend = Legend(_legend(graph), width)
    canvas = Canvas(width, height + legend.height + 0.3)
    place = np.zeros((graph.num_nodes, 2))
    left, bottom = (width - PITCH * (len(columns) - 1)) / 2, legend.height + 0.3
    for number, column in enumerate(columns):
        y = bottom + (height + _height(column)) / 2
        for layer in column:
            y -= GAP
            label = layer.name + (f" · {layer.activation.name}" if layer.activation.name else "")
            canvas.text(left + number * PITCH, y + 0.03, label, size=6, color=GREY, ha="center", va="bottom")
            place[layer.nodes] = [(left + number * PITCH, y - (i + 0.5) * SPACING) for i in range(layer.size)]
            y -= layer.size * SPACING
    _draw_edges(canvas, graph, place)
    for layer in graph.layers:
        _draw_nodes(canvas, layer, place)
    legend.draw(canvas)
    canvas.title(graph.name, _counts(graph))
    return canvas.save(path)


def _counts(graph: ComputationGraph) -> str:
    return f"{graph.num_nodes:,} nodes · {graph.num_edges:,} edges · {graph.num_parameters:,} parameters"


def _columns(graph: ComputationGraph) -> list[list[Layer]]:
    """Group layers by depth; a bias node stands in the column before its neurons."""
    columns: dict[int, list[Layer]] = {}
    for layer in sorted(graph.layers, key=lambda layer: layer.kind == "bias"):
        depth = int(graph.node_depth[layer.nodes].max())
        if layer.kind == "bias":
            reached = graph.target[graph.source == layer.start]
            depth = int(graph.node_depth[reached].min()) - 1
        columns.setdefault(depth, []).append(layer)
    return [columns[depth] for depth in sorted(columns)]


def _height(column: list[Layer]) -> float:
    return sum(GAP + layer.size * SPACING for layer in column)


def _colour(number: int, count: int) -> str:
    """Return one colour for each weight: distinct ones if there are few, all hues if there are many."""
    if count <= len(WEIGHTS):
        return WEIGHTS[number]
    return to_hex(hls_to_rgb(number / count, 0.5, 0.65))


def _draw_edges(canvas: Canvas, graph: ComputationGraph, place: np.ndarray) -> None:
    ends = np.stack([place[graph.source.numpy()], place[graph.target.numpy()]], axis=1)  # [E, 2, 2]
    learned = (graph.sharing < graph.num_parameters).numpy()
    colours = [_colour(number, graph.num_parameters) for number in graph.sharing[learned].tolist()]
    canvas.axes.add_artist(LineCollection(ends[learned].tolist(), colors=colours, linewidths=0.9, zorder=1))
    dashed = {"linewidths": 0.9, "linestyles": [(0, (4, 2))], "zorder": 1}
    canvas.axes.add_artist(LineCollection(ends[~learned].tolist(), colors=GREY, **dashed))


def _draw_nodes(canvas: Canvas, layer: Layer, place: np.ndarray) -> None:
    diameters = [0.17] * layer.size
    nodes = EllipseCollection(
        diameters,
        diameters,
        [0] * layer.size,
        units="xy",
        offsets=place[layer.nodes],
        offset_transform=canvas.axes.transData,
        facecolors=node_colour(KINDS[layer.kind]),
        edgecolors="white",
        linewidths=0.7,
        zorder=3,
    )
    canvas.axes.add_artist(nodes)


def _legend(graph: ComputationGraph) -> list[tuple[str, list[Entry]]]:
    kinds = dict.fromkeys(layer.kind for layer in graph.layers)
    nodes = [Entry(kind, node_colour(KINDS[kind]), "circle") for kind in kinds]
    edges = [Entry("weights by colour", GREY, "line")]
    if graph.num_parameters <= MAX_NAMES:
        names = [name for p in graph.parameters for name in _element_names(p.name, p.shape)]
        edges = [Entry(name, _colour(i, graph.num_parameters), "line") for i, name in enumerate(names)]
    constants = [Entry(f"constant {value:g}", GREY, "dashed") for value in graph.constants.tolist()]
    return [("nodes", nodes), ("edges", edges + constants)]


def _element_names(name: str, shape: tuple[int, ...]) -> list[str]:
    return [f"{name}[{', '.join(map(str, index))}]" for index in np.ndindex(shape)]
