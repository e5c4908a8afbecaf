"""An overview of a zoo: counts, sizes and provenance."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from textwrap import fill
from typing import Any

import pyarrow.compute as pc

from graph_metanetworks.table import WIDTH
from graph_metanetworks.zoo.description import OPTIONS_KEY, flatten
from graph_metanetworks.zoo.zoo import Zoo

CHECKSUM = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{52}\b")


@dataclass(frozen=True)
class Overview:
    """Counts, sizes and provenance of a zoo."""

    folder: str
    recipe: str
    networks: int
    wanted: int
    diverged: int
    dropped: int  # diverged, or files that do not fit, and left out
    shards: int
    bytes: int
    fewest_weights: int
    most_weights: int
    seed: int
    half: bool
    options: dict[str, Any]
    versions: dict[str, str]
    created: str | None = None

    def as_json(self) -> dict[str, Any]:
        return {OPTIONS_KEY if name == "options" else name: value for name, value in asdict(self).items()}

    def text(self, width: int = WIDTH) -> str:
        sizes = f"{self.fewest_weights:,} to {self.most_weights:,}"
        precision = ", weights in half precision" if self.half else ""
        lines = {
            "recipe": self.recipe,
            "networks": self._networks(),
            "weights": f"{sizes} values per network, including buffers",
            "on disk": f"{self.bytes / 1e6:,.1f} MB in {self.shards:,} shards{precision}",
            "seed": str(self.seed),
            **{name: _as_text(value) for name, value in flatten(self.options).items()},
            **({"created": self.created} if self.created else {}),
            "versions": ", ".join(f"{name} {number}" for name, number in self.versions.items()),
        }
        names = max(map(len, lines))
        return "\n".join([self.folder, *(_line(name, text, names, width) for name, text in lines.items())])

    def _networks(self) -> str:
        finished = self.networks + self.dropped == self.wanted
        count = f"{self.networks:,}" if finished else f"{self.networks:,} of {self.wanted:,}"
        if self.dropped and "from_folder" in self.recipe:
            return f"{count} ({self.diverged:,} diverged; {self.dropped:,} more files were left out)"
        if self.dropped:
            return f"{count} ({self.dropped:,} more diverged and were dropped)"
        return f"{count} ({self.diverged:,} diverged)"


def overview(zoo: Zoo) -> Overview:
    """Collect the counts and sizes of a zoo."""
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
        dropped=zoo.num_dropped,
        shards=zoo.num_shards,
        bytes=zoo.num_bytes,
        fewest_weights=min(sizes, default=0),
        most_weights=max(sizes, default=0),
        seed=description.seed,
        half=description.half,
        options=description.options,
        versions=description.versions or {},
        created=description.created,
    )


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _line(name: str, text: str, names: int, width: int) -> str:
    """Return a name and its text, wrapped with a hanging indent."""
    short = CHECKSUM.sub(r"\1…", text)
    return fill(
        short,
        width,
        initial_indent=f"  {name:{names}}  ",
        subsequent_indent=" " * (names + 4),
        break_long_words=False,
        break_on_hyphens=False,
    )
