"""What there is to know of a zoo at a glance."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow.compute as pc

from graph_metanetworks.zoo.zoo import Zoo


@dataclass(frozen=True)
class Overview:
    """Counts, sizes and provenance of a zoo."""

    folder: str
    recipe: str
    networks: int
    wanted: int
    diverged: int
    shards: int
    bytes: int
    fewest_weights: int
    most_weights: int
    seed: int
    half: bool
    settings: dict[str, Any]
    versions: dict[str, str]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def text(self) -> str:
        sizes = f"{self.fewest_weights:,} to {self.most_weights:,}"
        networks = (
            f"{self.networks:,}" if self.networks == self.wanted else f"{self.networks:,} of {self.wanted:,}"
        )
        precision = ", weights in half precision" if self.half else ""
        lines = {
            "recipe": self.recipe,
            "networks": f"{networks} ({self.diverged:,} diverged)",
            "weights": f"{sizes} numbers per network, buffers included",
            "on disk": f"{self.bytes / 1e6:,.1f} MB in {self.shards:,} shards{precision}",
            "seed": str(self.seed),
            **_flat(self.settings),
            "made with": ", ".join(f"{name} {number}" for name, number in self.versions.items()),
        }
        width = max(map(len, lines))
        return "\n".join([self.folder, *(f"  {name:{width}}  {text}" for name, text in lines.items())])


def overview(zoo: Zoo) -> Overview:
    """Count and measure a zoo."""
    description = zoo.description
    sizes = zoo.weight_counts()
    has_diverged = "diverged" in zoo.table.column_names
    diverged = len(zoo.filter(pc.field("diverged"))) if has_diverged else 0
    return Overview(
        folder=str(zoo.folder),
        recipe=description.recipe,
        networks=len(zoo),
        wanted=description.count,
        diverged=diverged,
        shards=zoo.num_shards,
        bytes=zoo.num_bytes,
        fewest_weights=min(sizes, default=0),
        most_weights=max(sizes, default=0),
        seed=description.seed,
        half=description.half,
        settings=description.settings,
        versions=description.versions or {},
    )


def _flat(settings: dict[str, Any], before: str = "") -> dict[str, str]:
    """Settings as lines of text.

    >>> _flat({"data": {"name": "digits", "size": [8, 8]}, "steps": 3})
    {'data.name': 'digits', 'data.size': '[8, 8]', 'steps': '3'}
    """
    lines: dict[str, str] = {}
    for name, value in settings.items():
        if isinstance(value, dict):
            lines |= _flat(value, f"{before}{name}.")
        else:
            lines[before + name] = value if isinstance(value, str) else json.dumps(value)
    return lines
