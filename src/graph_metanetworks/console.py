"""Terminal output that commands share."""

from __future__ import annotations

from rich.console import Console


def say(text: str, style: str = "", *, err: bool = False) -> None:
    """Print a line in a style, to standard error if `err`."""
    Console(highlight=False, stderr=err).print(text, style=style, markup=False, soft_wrap=True)
