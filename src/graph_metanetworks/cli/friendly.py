"""What a user did wrong, as a message instead of a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console

from graph_metanetworks.errors import StorageError, TaskError, TraceError, ZooError
from graph_metanetworks.extras import MissingExtra
from graph_metanetworks.plot.formats import UnknownSuffix


@contextmanager
def friendly_errors(*, debug: bool) -> Iterator[None]:
    """Print our own errors in red and exit with 1; with `debug`, let them through."""
    try:
        yield
    except (TraceError, ZooError, TaskError, StorageError, MissingExtra, UnknownSuffix) as error:
        if debug:
            raise
        console = Console(stderr=True, highlight=False)
        console.print("error:", style="bold red", end=" ")
        console.print(str(error), style="red", markup=False, soft_wrap=True)
        raise typer.Exit(1) from None
