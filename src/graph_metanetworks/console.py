"""Terminal output that commands share."""

from __future__ import annotations

from rich.console import Console


def say(text: str, style: str = "", *, err: bool = False) -> None:
    """Print a message as it is, in a style of rich, to standard output or standard error."""
    Console(stderr=err, highlight=False).print(text, style=style, markup=False, soft_wrap=True)
