"""Options of a recipe on the command line, derived from the arguments of its constructor."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, get_type_hints

from graph_metanetworks.cli.typed_value import expected, members, typed_value
from graph_metanetworks.errors import ZooError
from graph_metanetworks.table import Table
from graph_metanetworks.zoo.recipe import Recipe
from graph_metanetworks.zoo.registry import options_of

Options = Mapping[str, inspect.Parameter]


def parse_options(words: Sequence[str], kind: type[Recipe[Any]], reference: str) -> dict[str, Any]:
    """Parse the remaining words of a command line: `--steps 300`, `--steps=300`, `--flip`, `--no-flip`."""
    known = options_of(kind)
    types_of = {name: _type(option) for name, option in known.items()} | get_type_hints(kind.__init__)
    values: dict[str, Any] = {}
    waiting = list(reversed(words))
    while waiting:
        word = waiting.pop()
        name, equals, text = word.removeprefix("--").partition("=")
        name = name.replace("-", "_")
        if not word.startswith("--"):
            raise ZooError(f"'{word}' is not an option: write options of a recipe as --name value.")
        if name.startswith("no_") and name not in known and not equals:
            name = _known(name.removeprefix("no_"), known, reference)
            values[name] = _flag(False, word, types_of[name])
            continue
        option_type = types_of[_known(name, known, reference)]
        if not equals and (not waiting or waiting[-1].startswith("--")):
            values[name] = _flag(True, word, option_type)
            continue
        values[name] = _value(_written(name), text if equals else waiting.pop(), option_type)
    return values


def options_text(kind: type[Recipe[Any]], reference: str) -> str:
    """Return a table of the options of a recipe."""
    rows = [
        (_written(name), _type_name(option), _default(option)) for name, option in options_of(kind).items()
    ]
    if not rows:
        return f"{reference} has no options of its own."
    return Table(f"Options of {reference}", ("option", "type", "default"), rows).text()


def _known(name: str, known: Options, reference: str) -> str:
    if name not in known:
        choices = ", ".join(map(_written, known)) or "none"
        raise ZooError(
            f"neither gmn zoo build nor {reference} has an option {_written(name)}. The options of "
            f"{reference} are: {choices}. `gmn zoo build --help` lists the others."
        )
    return name


def _flag(value: bool, word: str, kind: Any) -> bool:
    """Return the value of a flag. Only Boolean options can be given without a value."""
    if bool in members(kind):
        return value
    if value:
        raise ZooError(f"{word} needs a value ({expected(kind)}): write {word} VALUE or {word}=VALUE.")
    option = f"--{word.removeprefix('--no-')}"
    raise ZooError(f"{word} is not valid: {option} is not a flag, but takes {expected(kind)}.")


def _value(option: str, text: str, kind: Any) -> Any:
    try:
        return typed_value(text, kind)
    except ValueError as error:
        raise ZooError(f"{option} must be {error}, not '{text}'.") from None


def _type(option: inspect.Parameter) -> Any:
    """Return the type of an option without annotation: a flag if its default is Boolean, else any value."""
    return bool if isinstance(option.default, bool) else Any


def _written(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _type_name(option: inspect.Parameter) -> str:
    return "" if option.annotation is option.empty else inspect.formatannotation(option.annotation).strip("'")


def _default(option: inspect.Parameter) -> str:
    return "required" if option.default is option.empty else repr(option.default)
