"""Generate the parts of the pages that come from the code, as Markdown.

A page shows one where it has the comment `<!-- generated: name -->`.

python docs/tables.py methods
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from dataclasses import fields

from modules import listing

from graph_metanetworks.methods.registry import METHODS
from graph_metanetworks.methods.variants import MODIFIERS
from graph_metanetworks.tasks.accuracy.task import Options
from graph_metanetworks.training.options import Machine

PLACE = re.compile(r"<!-- generated: (\w+) -->")


def methods() -> str:
    """Return the table of methods."""
    return _table(("method", "how it learns"), ((f"`{m.name}`", m.about) for m in METHODS.values()))


def modifiers() -> str:
    """Return the table of modifiers."""
    return _table(
        ("modifier", "what the method sees"), ((f"`+{m.name}`", m.about) for m in MODIFIERS.values())
    )


def accuracy_options() -> str:
    """Return the table of the options of `gmn train accuracy`."""
    found = [field for kind in (Options, Machine) for field in fields(kind) if field.name != "quiet"]
    named = ((field.metadata["name"] or field.name, field) for field in found)
    rows = (
        (f"`--{name.replace('_', '-')}`", _default(field.default), field.metadata["help"])
        for name, field in named
    )
    return _table(("option", "default", "meaning"), rows)


GENERATED = {
    "modules": listing,
    "methods": methods,
    "modifiers": modifiers,
    "accuracy_options": accuracy_options,
}


def fill(text: str) -> str:
    """Put the generated parts into the text of a page."""
    return PLACE.sub(lambda place: GENERATED[place[1]](), text)


def _default(value: object) -> str:
    if isinstance(value, tuple):
        value = ", ".join(value)
    return "" if value is None else f"`{value}`"


def _table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = (header, ("---",) * len(header), *rows)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    print(GENERATED[sys.argv[1]]())
