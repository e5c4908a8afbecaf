"""Figures that compare INRs with the images or signals that they were fitted to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor

from graph_metanetworks.extras import optional_imports
from graph_metanetworks.plot.formats import check_suffix
from graph_metanetworks.zoo.inr.conventions import Conventions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CELL = 0.9  # inches


def save_sheet(
    path: str | Path,
    originals: Sequence[Tensor],
    renders: Sequence[Tensor],
    conventions: Conventions,
    *,
    columns: int = 10,
) -> Path:
    """Save a figure of originals and their renders, with the PSNR below, as PNG, SVG or PDF.

    Signals [points] are drawn as curves, images [channels, height, width] as images.
    """
    with optional_imports():
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    path = check_suffix(path)
    if not originals or len(originals) != len(renders):
        raise ValueError(
            f"there are {len(originals)} originals but {len(renders)} renders: pass one render per original"
        )
    columns = min(columns, len(originals))
    bands = -(-len(originals) // columns)
    figure = Figure(figsize=(CELL * columns, CELL * 2.25 * bands), facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(2 * bands, columns, squeeze=False)
    for ax in axes.flat:
        ax.set_axis_off()
    for number, (original, rendered) in enumerate(zip(originals, renders, strict=True)):
        band, column = divmod(number, columns)
        upper, lower = axes[2 * band, column], axes[2 * band + 1, column]
        draw(upper, original, conventions)
        draw(lower, rendered, conventions)
        psnr = conventions.psnr((original - rendered).square().mean().item())
        lower.set_title(f"{psnr:.1f} dB", y=-0.28, fontsize=7)
    figure.savefig(path, dpi=150)
    return path


def draw(ax: Axes, values: Tensor, conventions: Conventions) -> None:
    """Draw a signal [points] as a curve, an image [channels, height, width] as an image."""
    if values.dim() == 1:
        ax.plot(values.cpu().numpy(), linewidth=0.8, color="black")
        ax.set_ylim(conventions.value_low, conventions.value_high)
        return
    brightness = conventions.to_unit(values).permute(1, 2, 0).cpu().numpy()
    grey = {"cmap": "gray", "vmin": 0, "vmax": 1} if brightness.shape[2] == 1 else {}
    ax.imshow(brightness, interpolation="nearest", **grey)
