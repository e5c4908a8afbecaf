"""Errors of users and interruptions as messages instead of tracebacks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from graph_metanetworks.console import say
from graph_metanetworks.errors import (
    PruneError,
    StorageError,
    TaskError,
    TraceError,
    UnsupportedNetwork,
    ZooError,
)
from graph_metanetworks.extras import MissingExtra
from graph_metanetworks.plot.formats import UnknownSuffix

OURS = (
    *(TraceError, ZooError, TaskError, PruneError, UnsupportedNetwork, StorageError),
    *(MissingExtra, UnknownSuffix),
)
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


@contextmanager
def friendly_errors(*, debug: bool) -> Iterator[None]:
    """Print our own errors in red and exit with 1; with `debug`, let them through."""
    try:
        yield
    except OURS as error:
        if debug:
            raise
        console = Console(stderr=True, highlight=False)
        console.print("error:", style="bold red", end=" ")
        console.print(str(error), style="red", markup=False, soft_wrap=True)
        raise typer.Exit(1) from None


@contextmanager
def resumable(folder: Path) -> Iterator[None]:
    """Exit with 130 on Ctrl-C, and say how to resume."""
    try:
        yield
    except KeyboardInterrupt:
        say(f"stopped. Rerun the same command to resume {folder}.", "yellow")
        raise typer.Exit(130) from None
