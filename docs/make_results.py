"""Draw the results of several experiments at a glance, for the README: a panel for each, from its runs.csv.

A panel may join experiments: their files are separated by commas.

python docs/make_results.py "Accuracy, R²=experiments/cifar/runs.csv:r2" "Dilation, MSE=..."
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from graph_metanetworks.experiments.report.figures import COLOURS, label, new_figure
from graph_metanetworks.methods.registry import find_method
from graph_metanetworks.plot.palette import FAINT, INK

DOCS = Path(__file__).resolve().parent
OURS, OTHERS = COLOURS[0], FAINT


def read(paths: str, column: str) -> dict[str, list[float]]:
    """Return the scores of each method in the first setting, one for each seed; of two files, the last."""
    found: dict[str, list[float]] = {}
    for path in paths.split(","):
        with Path(path).open() as file:
            rows = list(csv.DictReader(file))
        for method in dict.fromkeys(row["method"] for row in rows):
            own = [row for row in rows if (row["method"], row["setting"]) == (method, rows[0]["setting"])]
            found[method] = [float(row[column]) for row in own]
    return found


def draw(ax: Axes, title: str, found: dict[str, list[float]]) -> None:
    """Draw a bar for each method, ours in colour, with the score of each seed as a dot."""
    names = list(reversed(found))
    means = [float(np.mean(found[name])) for name in names]
    ax.barh(names, means, color=[OURS if name.startswith("gmn") else OTHERS for name in names], height=0.7)
    for place, (name, mean) in enumerate(zip(names, means, strict=True)):
        ax.plot(found[name], [place] * len(found[name]), ".", color=INK, markersize=3)
        ax.annotate(
            f"{mean:.3g}", (max(found[name]), place), (4, 0), textcoords="offset points", va="center", size=7
        )
    ax.set_yticks(range(len(names)), [find_method(name).title for name in names])
    ax.margins(x=0.18)
    label(ax, title)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("panels", nargs="+", metavar="TITLE=PATH:COLUMN")
    parser.add_argument("--out", type=Path, default=DOCS / "images" / "results.svg")
    options = parser.parse_args()
    panels = []
    for text in options.panels:
        title, _, place = text.partition("=")
        path, _, column = place.rpartition(":")
        panels.append((title, read(path, column)))
    height = 0.8 + 0.2 * max(len(found) for _, found in panels)
    figure, axes = new_figure(1, len(panels), width=3.6 * len(panels), height=height)
    for ax, (title, found) in zip(axes[0], panels, strict=True):
        draw(ax, title, found)
    figure.savefig(options.out, metadata={"Date": None})
    print(options.out)


if __name__ == "__main__":
    main()
