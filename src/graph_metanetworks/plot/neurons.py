"""A picture of every neuron: columns by depth, one curve per edge."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from math import log
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.collections import EllipseCollection, PathCollection
from matplotlib.patches import PathPatch
from torch import Tensor

from graph_metanetworks.plot.canvas import Canvas
from graph_metanetworks.plot.curves import Points, control_points, curves, each_curve, rank_parallel
from graph_metanetworks.plot.legend import Entry, Legend
from graph_metanetworks.plot.palette import GREY, NEGATIVE, POSITIVE, edge_colour, node_colour
from graph_metanetworks.table import shortened

if TYPE_CHECKING:
    from graph_metanetworks.graph.parameter_graph import ParameterGraph
    from graph_metanetworks.graph.parts import NodeGroup

TALLEST = 7.0  # inches of the fullest column
LABEL, BELOW = 0.24, 0.1  # space above a group for its name, and above the nodes of biases and the like
WIDEST = 11.0


def draw_neurons(graph: ParameterGraph, weights: Mapping[str, Tensor] | None = None) -> Canvas:
    own = graph.block_ends.parameter_nodes
    columns = _columns(graph, own)
    spacing = _spacing(columns)
    height = max(_height(column, own, spacing) for column in columns)
    pitch = min(2.4, max(1.35, 0.42 * height), max(1.1, WIDEST / len(columns)))
    width = max(pitch * (len(columns) - 1) + 0.8, 4.8)
    legend = Legend(_legend(graph, weights), width)
    canvas = Canvas(width, height + legend.height + 0.3)
    left = (width - pitch * (len(columns) - 1)) / 2
    bottom = legend.height + 0.3
    position = np.zeros((graph.num_nodes, 2))
    for number, column in enumerate(columns):
        x = left + number * pitch
        y = bottom + (height + _height(column, own, spacing)) / 2
        for group in column:
            y -= _above(column, group, own)
            if group not in own:
                _label(canvas, graph, group, x, y)
            position[group.nodes, 0] = x
            position[group.nodes, 1] = y - (np.arange(group.size) + 0.5) * spacing
            y -= group.size * spacing
    _draw_edges(canvas, graph, position, pitch, weights)
    _draw_nodes(canvas, graph, position, spacing)
    legend.draw(canvas)
    canvas.title(graph.name, counts(graph))
    return canvas


def counts(graph: ParameterGraph) -> str:
    """Return the line under the title."""
    nodes, edges = f"{graph.num_nodes:,} nodes", f"{graph.num_edges:,} edges"
    return f"{nodes} · {edges} · {graph.num_parameters:,} parameters · {_symmetries(graph)}"


def _symmetries(graph: ParameterGraph) -> str:
    digits = graph.symmetry.log_order / log(10)
    if digits > 6:
        return f"$10^{{{digits:.1f}}}$ symmetries"
    order = graph.symmetry.order()
    return f"{order:,} symmetries" if order > 1 else "no symmetry"


def _columns(graph: ParameterGraph, own: frozenset[NodeGroup]) -> list[list[NodeGroup]]:
    """Group by depth; the nodes of biases, scales and the like stand under the neurons."""
    columns: dict[int, list[NodeGroup]] = defaultdict(list)
    for group in sorted(graph.groups, key=lambda group: (group in own, group.start)):
        columns[group.depth].append(group)
    return [columns[depth] for depth in sorted(columns)]


def _spacing(columns: list[list[NodeGroup]]) -> float:
    """Return inches between neurons, such that the fullest column is not too tall."""
    fullest = max(sum(group.size for group in column) for column in columns)
    return min(0.27, max(0.08, TALLEST / fullest))


def _height(column: list[NodeGroup], own: frozenset[NodeGroup], spacing: float) -> float:
    return sum(_above(column, group, own) + group.size * spacing for group in column)


def _above(column: list[NodeGroup], group: NodeGroup, own: frozenset[NodeGroup]) -> float:
    """Return the space above a group in its column."""
    if group not in own:
        return LABEL
    first = next(other for other in column if other in own)
    return BELOW if group == first else 0.0


def _label(canvas: Canvas, graph: ParameterGraph, group: NodeGroup, x: float, y: float) -> None:
    name = shortened(group.name or graph.name, 18)
    activation = f" · {group.activation}" if group.activation else ""
    canvas.text(
        x,
        y + 0.03,
        name + activation,
        size=6,
        color=GREY,
        ha="center",
        va="bottom",
        bbox={"facecolor": "white", "alpha": 0.75, "edgecolor": "none", "pad": 0.6},
        zorder=2.5,
    )


def _draw_nodes(canvas: Canvas, graph: ParameterGraph, position: Points, spacing: float) -> None:
    for group in graph.groups:
        diameter = [min(0.17, 0.8 * spacing)] * group.size
        canvas.axes.add_artist(
            EllipseCollection(
                diameter,
                diameter,
                [0] * group.size,
                units="xy",
                offsets=position[group.nodes],
                offset_transform=canvas.axes.transData,
                facecolors=node_colour(group.kind),
                edgecolors="white",
                linewidths=0.7,
                zorder=3,
            )
        )


def _draw_edges(
    canvas: Canvas,
    graph: ParameterGraph,
    position: Points,
    pitch: float,
    weights: Mapping[str, Tensor] | None,
) -> None:
    source, target = graph.edge_index.numpy()
    start, end = position[source], position[target]
    bend, centre = rank_parallel(source, target), (position[:, 1].min() + position[:, 1].max()) / 2
    values = None if weights is None else graph.edge_values(weights).float().numpy()
    for block, where in zip(graph.blocks, graph.edge_slices, strict=True):
        middle = control_points(start[where], end[where], bend[where], pitch, centre)
        points = start[where], middle, end[where]
        if values is None or block.parameter is None:
            structural, many = block.parameter is None, block.num_edges > 150
            canvas.axes.add_artist(
                PathPatch(
                    curves(*points),
                    facecolor="none",
                    edgecolor=edge_colour(block.kind),
                    linewidth=0.9 if structural else 0.4 if many else 0.6,
                    linestyle=(0, (4, 2)) if structural else "-",
                    alpha=0.65 if many else 0.9,
                    zorder=2 if structural else 1,
                )
            )
            continue
        strength = np.abs(values[where]) / max(float(np.abs(values[where]).max()), 1e-12)
        colours = [POSITIVE if value >= 0 else NEGATIVE for value in values[where]]
        canvas.axes.add_artist(
            PathCollection(
                each_curve(*points),
                facecolors="none",
                edgecolors=colours,
                linewidths=0.2 + 1.3 * strength,
                alpha=0.15 + 0.75 * strength,
                zorder=1,
            )
        )


def _legend(graph: ParameterGraph, weights: Mapping[str, Tensor] | None) -> list[tuple[str, list[Entry]]]:
    nodes = [Entry(kind, node_colour(kind), "circle") for kind in dict.fromkeys(g.kind for g in graph.groups)]
    structural = {block.kind: block.parameter is None for block in graph.blocks}
    edges = [
        Entry(kind, edge_colour(kind), "dashed" if alone else "line")
        for kind, alone in structural.items()
        if weights is None or alone
    ]
    if weights is not None:
        edges = [Entry("positive", POSITIVE, "line"), Entry("negative", NEGATIVE, "line"), *edges]
    return [("nodes", nodes), ("edges", edges)]
