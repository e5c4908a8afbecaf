"""zoo.json: what a zoo is made of."""

from __future__ import annotations

import json
import platform
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from reprlib import Repr
from typing import Any

from graph_metanetworks._version import __version__
from graph_metanetworks.errors import ZooError
from graph_metanetworks.storage import checksum
from graph_metanetworks.storage.atomic import write_durably
from graph_metanetworks.zoo.plan import Range

NAME = "zoo.json"
FORMAT = 1
PACKAGES = ("torch", "numpy", "pyarrow", "safetensors")
FIXED = ("recipe", "seed", "half", "drop_diverged")  # what a command must repeat to go on with a zoo
SHORT = Repr()
SHORT.maxstring, SHORT.maxother = 100, 100


@dataclass(frozen=True)
class Description:
    """The recipe with its settings, the seed, and which networks are wanted."""

    recipe: str  # as in `gmn zoo build`
    settings: dict[str, Any]
    seed: int
    ranges: tuple[Range, ...]
    half: bool = False
    drop_diverged: bool = False
    versions: dict[str, str] | None = None
    created: str | None = None  # date and time; it decides nothing
    format: int = FORMAT

    @property
    def count(self) -> int:
        return self.ranges[-1].stop if self.ranges else 0

    def save(self, folder: Path) -> None:
        text = json.dumps(checksum.sealed(asdict(self)), indent=2)
        write_durably(folder / NAME, text.encode() + b"\n")

    @classmethod
    def load(cls, folder: Path) -> Description:
        path = folder / NAME
        if not path.is_file():
            raise ZooError(f"there is no zoo in {folder}: {NAME} is missing.")
        try:
            content = json.loads(path.read_bytes())
        except ValueError as error:
            raise ZooError(f"{path} is damaged, it is no JSON: {error}. {RESTORE}") from error
        if isinstance(content, dict) and content.get("format", FORMAT) != FORMAT:
            raise ZooError(
                f"{path} is of format {content['format']}, and this version of graph_metanetworks reads "
                f"format {FORMAT}: update it."
            )
        if not checksum.is_intact(content):
            raise ZooError(f"{path} does not fit its checksum: it was damaged or edited. {RESTORE}")
        del content["checksum"]
        ranges = tuple(Range(**one) for one in content.pop("ranges"))
        return cls(ranges=ranges, **content)

    def differences(self, other: Description) -> list[str]:
        """In what another command would make another zoo."""
        ours, theirs = ({name: getattr(one, name) for name in FIXED} for one in (self, other))
        settings = _differences(flat(self.settings), flat(other.settings))
        return _differences(ours, theirs) + (settings if self.recipe == other.recipe else [])

    def dated(self) -> Description:
        return replace(self, created=datetime.now().astimezone().isoformat(timespec="seconds"))

    def extended(self, more: Range) -> Description:
        return replace(self, ranges=(*self.ranges, more))


RESTORE = (
    "The shards beside it may be whole. Restore the file from a copy, or start the command that built the "
    "zoo in another folder and copy zoo.json from there."
)


def versions() -> dict[str, str]:
    """What the result may depend on, apart from the recipe."""
    ours = {"graph_metanetworks": __version__}
    others = {name: version(name) for name in PACKAGES}
    return {"python": platform.python_version(), "machine": platform.machine(), **ours, **others}


def as_json(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings as they are when read again: tuples are lists."""
    try:
        return json.loads(json.dumps(settings))
    except TypeError as error:
        raise ZooError(
            f"the settings of a recipe must be plain values that JSON can hold: {error}."
        ) from error


def flat(settings: dict[str, Any], before: str = "") -> dict[str, Any]:
    """Settings within settings by their names, one after the other.

    >>> flat({"data": {"name": "digits", "size": [8, 8]}, "steps": 3})
    {'data.name': 'digits', 'data.size': [8, 8], 'steps': 3}
    """
    values: dict[str, Any] = {}
    for name, value in settings.items():
        values |= flat(value, f"{before}{name}.") if isinstance(value, dict) else {before + name: value}
    return values


def _differences(ours: dict[str, Any], theirs: dict[str, Any]) -> list[str]:
    names = [name for name in ours | theirs if ours.get(name) != theirs.get(name)]
    checksums = {name for name in ours if name.endswith("checksum")}
    if checksums and not checksums & set(names):
        names = [name for name in names if not _are_folders(ours.get(name), theirs.get(name))]
    return [f"{name}: {_shown(ours, name)}, not {_shown(theirs, name)}" for name in names]


def _are_folders(ours: Any, theirs: Any) -> bool:
    """Folders of images: where they lie decides nothing, if their checksums are equal."""
    return all(isinstance(value, str) and value.startswith("folder:") for value in (ours, theirs))


def _shown(values: dict[str, Any], name: str) -> str:
    return SHORT.repr(values[name]) if name in values else "nothing"
