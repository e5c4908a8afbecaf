"""Files that commands write: known to be writable before work starts; `-` is standard output."""

from __future__ import annotations

import os
from pathlib import Path

import typer

from graph_metanetworks.console import say
from graph_metanetworks.errors import StorageError

STANDARD = "-"


def check_writable(*files: str | Path | None, new: bool = False) -> None:
    """Refuse files that cannot be written; if `new`, also those that exist."""
    for file in files:
        if file is None or str(file) == STANDARD:
            continue
        path = Path(file)
        if new and path.exists():
            raise StorageError(f"{path} exists: nothing was written. Choose another name.")
        if not path.parent.is_dir():
            raise StorageError(f"cannot write {path}: there is no folder '{path.parent}'. Make it first.")
        if path.is_dir():
            raise StorageError(f"cannot write {path}: it is a folder. Name a file in it.")
        if not os.access(path.parent, os.W_OK):
            raise StorageError(f"cannot write {path}: the folder '{path.parent}' may not be changed.")


def write_text(file: str, text: str) -> None:
    """Write a file and say so, or print the text alone."""
    if file == STANDARD:
        typer.echo(text)
        return
    Path(file).write_text(text + "\n")
    say(f"wrote {file}", "green")
