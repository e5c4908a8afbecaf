"""Learning curves of all runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graph_metanetworks.experiments.grid import Cell
from graph_metanetworks.experiments.report.figures import as_image, cycle, label, new_figure
from graph_metanetworks.experiments.results import Results
from graph_metanetworks.methods.registry import find_method


def learning_curves(results: Results) -> str:
    """Draw the first score against seconds of training, a panel for each setting."""
    settings, score = results.grid.settings, results.task.scores[0]
    figure, axes = new_figure(1, len(settings), width=3.4 * len(settings), height=2.6)
    colours = dict(zip(results.grid.methods, cycle(len(results.grid.methods)), strict=True))
    for ax, setting in zip(axes[0], settings, strict=True):
        shown = []
        for method, colour in colours.items():
            for seed in range(results.grid.seeds):
                curve = results.curve(Cell(method, setting, seed))
                if curve is not None:
                    title = find_method(method).title if seed == 0 else None
                    ax.plot(curve["seconds"], curve[score.column], color=colour, linewidth=1, label=title)
                    shown.append(curve[score.column])
        if score.higher_is_better:
            ax.set_ylim(lowest(shown), 1.02)
        label(ax, results.task.setting(setting).title, "seconds of training", f"validation {score.title}")
    if axes[0][-1].get_legend_handles_labels()[0]:
        axes[0][-1].legend(fontsize=7, frameon=False)
    return as_image(figure, "learning curves")


def lowest(curves: Sequence[np.ndarray]) -> float:
    """Choose where the axis of scores starts: first points are seen, unless one would hide the rest.

    >>> lowest([np.array([-0.4, 0.8])]), lowest([np.array([-70.0, 0.8])]), lowest([np.array([0.5, 0.8])])
    (-0.45, -1.05, -0.05)
    """
    firsts = [curve[np.isfinite(curve)][:1] for curve in curves]
    return round(max(-1.0, min([0.0, *np.concatenate([*firsts, np.zeros(0)]).tolist()])) - 0.05, 3)
