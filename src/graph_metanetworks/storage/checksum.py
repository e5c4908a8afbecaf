"""SHA-256 checksums of files, and of JSON objects that store their own."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any


def of_bytes(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def of_file(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sealed(content: dict[str, Any]) -> dict[str, Any]:
    """Return the content with its checksum added.

    >>> is_intact(sealed({"seed": 3})), is_intact(sealed({"seed": 3}) | {"seed": 4})
    (True, False)
    """
    return {**content, "checksum": _of_json(content)}


def is_intact(content: Any) -> bool:
    """Return whether the content is a JSON object that matches its checksum."""
    if not isinstance(content, dict):
        return False
    rest = {key: value for key, value in content.items() if key != "checksum"}
    return content.get("checksum") == _of_json(rest)


def _of_json(content: dict[str, Any]) -> str:
    return of_bytes(json.dumps(content, sort_keys=True).encode())
