"""File formats of pictures."""

from __future__ import annotations

from pathlib import Path

SUFFIXES = (".svg", ".png", ".pdf")


class UnknownSuffix(ValueError):
    """The name of a picture does not say which format to write."""


def check_suffix(path: str | Path) -> Path:
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise UnknownSuffix(f"cannot draw to '{path}': the file name must end in {', '.join(SUFFIXES)}.")
    return path
