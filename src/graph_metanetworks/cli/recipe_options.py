"""Options of a recipe on the command line: whatever its class takes, with `--` in front."""

from __future__ import annotations

import inspect
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

from graph_metanetworks.cli.target import parse_literal
from graph_metanetworks.errors import ZooError
from graph_metanetworks.table import Table
from graph_metanetworks.zoo.recipe import Recipe
from graph_metanetworks.zoo.registry import options_of

Options = Mapping[str, inspect.Parameter]


def parse_options(words: Sequence[str], kind: type[Recipe[Any]], reference: str) -> dict[str, Any]:
    """Options from what is left of a command line: `--steps 300`, `--steps=300`, `--flip`, `--no-flip`."""
    known = options_of(kind)
    types_of = get_type_hints(kind.__init__)
    values: dict[str, Any] = {}
    waiting = list(reversed(words))
    while waiting:
        word = waiting.pop()
        name, equals, text = word.removeprefix("--").partition("=")
        name = name.replace("-", "_")
        if not word.startswith("--"):
            raise ZooError(f"'{word}' is not understood: options of a recipe are written --name value.")
        if name.startswith("no_") and name not in known and not equals:
            values[_known(name.removeprefix("no_"), known, reference)] = False
            continue
        _known(name, known, reference)
        if not equals and (not waiting or waiting[-1].startswith("--")):
            values[name] = True
            continue
        values[name] = _value(text if equals else waiting.pop(), types_of.get(name))
    return values


def options_text(kind: type[Recipe[Any]], reference: str) -> str:
    """The options of a recipe as a table."""
    rows = [
        (f"--{name.replace('_', '-')}", _type_name(option), _default(option))
        for name, option in options_of(kind).items()
    ]
    if not rows:
        return f"{reference} has no options of its own."
    return Table(f"Options of {reference}", ("option", "type", "default"), rows).text()


def _known(name: str, known: Options, reference: str) -> str:
    if name not in known:
        choices = ", ".join(f"--{choice.replace('_', '-')}" for choice in known) or "none"
        raise ZooError(
            f"neither gmn zoo build nor {reference} has an option --{name.replace('_', '-')}. The options of "
            f"{reference} are: {choices}; `gmn zoo build --help` lists the others."
        )
    return name


def _value(text: str, kind: Any) -> Any:
    kinds = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    if Path in kinds:
        return Path(text)
    if str in kinds and not (type(None) in kinds and text == "None"):
        return text
    return parse_literal(text)


def _type_name(option: inspect.Parameter) -> str:
    return "" if option.annotation is option.empty else inspect.formatannotation(option.annotation).strip("'")


def _default(option: inspect.Parameter) -> str:
    return "required" if option.default is option.empty else repr(option.default)
