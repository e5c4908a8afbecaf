"""Figures of the accuracy report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from graph_metanetworks.experiments.report.figures import as_image, cycle, label, new_figure
from graph_metanetworks.experiments.results import Predicted
from graph_metanetworks.plot.palette import FAINT

BINS = np.linspace(0, 1, 31).tolist()


def histograms(labels: np.ndarray, families: np.ndarray) -> str:
    """Draw the accuracies of the zoo, by family."""
    names = sorted(set(families.tolist()))
    figure, axes = new_figure(1, len(names), width=max(4.0, 2.1 * len(names)), height=2.1)
    for colour, name, ax in zip(cycle(len(names)), names, axes[0], strict=True):
        own = labels[families == name]
        ax.hist(own, BINS, color=colour)
        label(ax, f"{name} ({len(own):,})", "accuracy", "networks" if ax is axes[0][0] else "")
    return as_image(figure, "histograms of accuracies by family")


def scatter(panels: Mapping[str, Mapping[str, Predicted]], families: Mapping[int, str], name: str) -> str:
    """Draw predicted against true accuracy: a row per part, a column per method, a colour per family."""
    methods = list(panels)
    parts = list(panels[methods[0]])
    known = sorted(set(families.values()))
    width = 2.3 * len(methods) + 0.8
    figure, axes = new_figure(len(parts), len(methods), width=width, height=2.3 * len(parts) + 0.3)
    for row, part in zip(axes, parts, strict=True):
        for ax, method in zip(row, methods, strict=True):
            shown = panels[method][part]
            own = np.array([families[index] for index in shown.indices.tolist()])
            ax.plot([0, 1], [0, 1], color=FAINT, linewidth=1)
            for colour, family in zip(cycle(len(known)), known, strict=True):
                chosen = own == family
                ax.scatter(
                    *(shown.true[chosen], shown.predicted[chosen]),
                    s=7,
                    color=colour,
                    alpha=0.6,
                    linewidths=0,
                    label=family,
                )
            ax.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03))
            heading = f"{method}, {part}" if len(parts) > 1 else method
            label(ax, heading, "true accuracy", "predicted" if ax is row[0] else "")
    if len(known) > 1:
        axes[0][-1].legend(fontsize=7, frameon=False, loc="upper left", handletextpad=0.1)
    return as_image(figure, f"scatter plots, {name}")


def errors_by_group(errors: Mapping[str, np.ndarray], groups: Mapping[str, np.ndarray]) -> str:
    """Draw absolute errors of each method as boxes, by family and hidden size."""
    methods = list(errors)
    names = sorted({name for own in groups.values() for name in own.tolist()})
    figure, axes = new_figure(1, 1, width=max(5.0, 1.0 * len(names) + 1.5), height=2.8)
    ax, share = axes[0][0], 0.8 / len(methods)
    for number, (method, colour) in enumerate(zip(methods, cycle(len(methods)), strict=True)):
        boxes = [errors[method][groups[method] == name] for name in names]
        places = np.arange(len(names)) + (number - (len(methods) - 1) / 2) * share
        drawn = ax.boxplot(
            boxes,
            positions=places,
            widths=0.8 * share,
            showfliers=False,
            patch_artist=True,
            manage_ticks=False,
        )
        for box in drawn["boxes"]:
            box.set(facecolor=colour, edgecolor=colour, alpha=0.6)
        for line in (*drawn["medians"], *drawn["whiskers"], *drawn["caps"]):
            line.set(color=colour)
        ax.plot([], [], color=colour, linewidth=6, alpha=0.6, label=method)
    ax.set_xticks(range(len(names)), names, rotation=30, ha="right")
    label(ax, "", "", "absolute error")
    ax.legend(fontsize=7, frameon=False, loc="upper left", bbox_to_anchor=(1, 1))  # boxes may be anywhere
    return as_image(figure, "errors by family and size")


def calibration(levels: Sequence[float], coverage: Mapping[str, Sequence[float]]) -> str:
    """Draw the coverage of intervals against their level."""
    figure, axes = new_figure(1, 1, width=3.6, height=3.0)
    ax = axes[0][0]
    ax.plot([0, 1], [0, 1], color=FAINT, linewidth=1)
    for colour, (method, found) in zip(cycle(len(coverage)), coverage.items(), strict=True):
        ax.plot(levels, found, "o-", color=colour, markersize=3, linewidth=1, label=method)
    ax.set(xlim=(0.4, 1.0), ylim=(0.4, 1.02))
    label(ax, "", "level", "coverage")
    ax.legend(fontsize=7, frameon=False)
    return as_image(figure, "calibration of intervals")
