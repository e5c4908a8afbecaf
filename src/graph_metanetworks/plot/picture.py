"""A picture that notebooks show inline, and that can be saved."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from graph_metanetworks.plot.canvas import Canvas
from graph_metanetworks.plot.formats import check_suffix


@dataclass(frozen=True, eq=False, repr=False)
class Picture:
    """What `graph.plot()` returns. A notebook shows it; elsewhere, save it."""

    canvas: Canvas
    name: str

    def save(self, path: str | Path) -> Path:
        """Write an svg, png or pdf file."""
        return self.canvas.save(check_suffix(path))

    def _repr_svg_(self) -> str:
        return self.canvas.svg()

    def __repr__(self) -> str:
        return f"Picture({self.name}): a notebook shows it; .save('graph.svg') writes it to a file"
