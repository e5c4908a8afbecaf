"""Figures of the contrastive report."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from graph_metanetworks.experiments.grid import Cell
from graph_metanetworks.experiments.report.figures import as_image, cycle, label, new_figure
from graph_metanetworks.experiments.results import Results
from graph_metanetworks.methods.registry import find_method
from graph_metanetworks.plot.embedding_map import principal_components
from graph_metanetworks.plot.palette import FAINT

Columns = Mapping[str, np.ndarray]


def maps(embedded: Mapping[str, np.ndarray], columns: Mapping[str, Columns], name: str) -> str:
    """Draw embeddings on their principal components: a column per method, a row and a colour per value."""
    methods = list(embedded)
    values = list(columns[methods[0]])
    figure, axes = new_figure(
        len(values), len(methods), width=2.2 * len(methods) + 0.9, height=2.0 * len(values) + 0.3
    )
    for column, method in enumerate(methods):
        points, shares = principal_components(embedded[method])
        for row, value in enumerate(values):
            ax = axes[row][column]
            drawn = ax.scatter(*points.T, c=columns[method][value], s=5, linewidths=0, cmap="viridis")
            ax.set(xticks=[], yticks=[])
            label(ax, f"{method} ({shares.sum():.0%} of the variance)" if row == 0 else "")
            if column == len(methods) - 1:
                figure.colorbar(drawn, ax=ax, label=value.replace("_", " "))
    return as_image(figure, f"maps of embeddings, {name}")


def scatter(panels: Mapping[str, tuple[Columns, Columns]], name: str) -> str:
    """Draw predicted against true values: a row per value, a column per method."""
    methods = list(panels)
    values = list(panels[methods[0]][0])
    figure, axes = new_figure(
        len(values), len(methods), width=2.2 * len(methods) + 0.5, height=2.2 * len(values) + 0.2
    )
    for column, (method, (true, predicted)) in enumerate(panels.items()):
        for row, value in enumerate(values):
            ax, error = axes[row][column], float(np.square(true[value] - predicted[value]).mean())
            ends = [float(true[value].min()), float(true[value].max())]
            ax.plot(ends, ends, color=FAINT, linewidth=1)
            ax.scatter(true[value], predicted[value], s=5, alpha=0.6, linewidths=0)
            heading = f"{method}: " if row == 0 else ""
            label(ax, f"{heading}MSE {error:.2f}", f"true {value}", "predicted" if column == 0 else "")
    return as_image(figure, f"linear regression, {name}")


def curves(results: Results) -> str:
    """Draw the loss, the regression error and retrieval on validation networks against steps."""
    shown = [score for score in results.task.scores if score.metric is not None or score.name == "loss"]
    settings, colours = results.grid.settings, cycle(len(results.grid.methods))
    figure, axes = new_figure(
        len(settings), len(shown), width=3.2 * len(shown), height=2.3 * len(settings) + 0.2
    )
    for row, setting in zip(axes, settings, strict=True):
        for ax, score in zip(row, shown, strict=True):
            for method, colour in zip(results.grid.methods, colours, strict=True):
                curve = results.curve(Cell(method, setting, 0))
                if curve is not None and np.isfinite(curve[score.column]).any():
                    title = find_method(method).title
                    ax.plot(curve["step"], curve[score.column], color=colour, linewidth=1, label=title)
            ax.set_visible(ax.has_data())  # supervised runs have no retrieval
            label(ax, results.task.setting(setting).title, "step", f"validation {score.title}")
    if axes[0][0].get_legend_handles_labels()[0]:
        axes[0][0].legend(fontsize=7, frameon=False)
    return as_image(figure, "loss, error and retrieval")
