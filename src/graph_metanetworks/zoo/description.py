"""zoo.json: the description of a zoo."""

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
FIXED = ("recipe", "seed", "half", "drop_diverged")  # must be equal to resume a zoo
OPTIONS_KEY = "settings"  # the key of the options in zoo.json
SHORT = Repr()
SHORT.maxstring, SHORT.maxother = 100, 100


@dataclass(frozen=True)
class Description:
    """The recipe with its options, the seed, and the range of networks."""

    recipe: str  # as in `gmn zoo build`
    options: dict[str, Any]
    seed: int
    ranges: tuple[Range, ...]
    half: bool = False
    drop_diverged: bool = False
    versions: dict[str, str] | None = None
    created: str | None = None  # date and time, for information only
    format: int = FORMAT

    @property
    def count(self) -> int:
        return self.ranges[-1].stop if self.ranges else 0

    def save(self, folder: Path) -> None:
        content = {OPTIONS_KEY if name == "options" else name: value for name, value in asdict(self).items()}
        text = json.dumps(checksum.sealed(content), indent=2)
        write_durably(folder / NAME, text.encode() + b"\n")

    @classmethod
    def load(cls, folder: Path) -> Description:
        path = folder / NAME
        if not path.is_file():
            raise ZooError(f"there is no zoo in {folder}: {NAME} is missing.")
        try:
            content = json.loads(path.read_bytes())
        except ValueError as error:
            raise ZooError(f"{path} is damaged: it is not valid JSON ({error}). {RESTORE}") from error
        if isinstance(content, dict) and content.get("format", FORMAT) != FORMAT:
            raise ZooError(
                f"{path} has format {content['format']}, but this version of graph_metanetworks reads "
                f"format {FORMAT}. Update the package."
            )
        if not checksum.is_intact(content):
            raise ZooError(f"{path} does not match its checksum: it was damaged or edited. {RESTORE}")
        del content["checksum"]
        ranges = tuple(Range(**one) for one in content.pop("ranges"))
        return cls(options=content.pop(OPTIONS_KEY), ranges=ranges, **content)

    def differences(self, other: Description) -> list[str]:
        """Return a line for each difference that would make another zoo."""
        ours, theirs = ({name: getattr(one, name) for name in FIXED} for one in (self, other))
        options = _differences(flatten(self.options), flatten(other.options))
        return _differences(ours, theirs) + (options if self.recipe == other.recipe else [])

    def dated(self) -> Description:
        return replace(self, created=datetime.now().astimezone().isoformat(timespec="seconds"))

    def extended(self, more: Range) -> Description:
        return replace(self, ranges=(*self.ranges, more))


RESTORE = (
    "The shards may still be intact. Restore the file from a backup, or start the command that built the "
    "zoo in another folder and copy zoo.json from there."
)


def versions() -> dict[str, str]:
    """Return the versions of the packages that may affect the result."""
    ours = {"graph_metanetworks": __version__}
    others = {name: version(name) for name in PACKAGES}
    return {"python": platform.python_version(), "machine": platform.machine(), **ours, **others}


def plain_options(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options as they will be read back from JSON: tuples become lists."""
    try:
        return json.loads(json.dumps(options))
    except TypeError as error:
        raise ZooError(
            f"the options of a recipe must be plain values that JSON can represent: {error}."
        ) from error


def flatten(options: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten nested options, with names joined by dots.

    >>> flatten({"data": {"name": "digits", "size": [8, 8]}, "steps": 3})
    {'data.name': 'digits', 'data.size': [8, 8], 'steps': 3}
    """
    values: dict[str, Any] = {}
    for name, value in options.items():
        values |= flatten(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return values


def _differences(ours: dict[str, Any], theirs: dict[str, Any]) -> list[str]:
    names = [name for name in ours | theirs if ours.get(name) != theirs.get(name)]
    checksums = {name for name in ours if name.endswith("checksum")}
    if checksums and not checksums & set(names):
        names = [name for name in names if not _are_folders(ours.get(name), theirs.get(name))]
    return [f"{name}: {_shown(ours, name)}, not {_shown(theirs, name)}" for name in names]


def _are_folders(ours: Any, theirs: Any) -> bool:
    """Return whether both are image folders, whose path does not matter if their checksums are equal."""
    return all(isinstance(value, str) and value.startswith("folder:") for value in (ours, theirs))


def _shown(values: dict[str, Any], name: str) -> str:
    return SHORT.repr(values[name]) if name in values else "nothing"
