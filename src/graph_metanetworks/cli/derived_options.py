"""Options of a command from the fields of dataclasses, each written once: name, type, default, help."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Annotated, Any, get_origin, get_type_hints

import typer


def with_options(*kinds: type, **defaults: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a function that takes `**values` one option for each field of some dataclasses.

    Args:
        kinds: dataclasses whose fields are made by `training.options.option`.
        defaults: other defaults than those of the fields; a field whose default is `...` gets no option.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        own = list(inspect.signature(function, eval_str=True).parameters.values())
        named = [p for p in own if p.kind is not inspect.Parameter.VAR_KEYWORD]
        taken = {parameter.name for parameter in named}
        derived = [
            parameter
            for kind in kinds
            for parameter in _parameters(kind, defaults)
            if parameter.name not in taken and parameter.default is not ...
        ]
        function.__signature__ = inspect.Signature([*named, *derived])  # type: ignore[attr-defined]
        function.__annotations__ = {p.name: p.annotation for p in (*named, *derived)}
        return function

    return decorate


def values_of(kind: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Pick the values of a dataclass's fields out of those of a command; lists become tuples."""
    known = {field.name for field in fields(kind)}
    return {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in values.items()
        if name in known
    }


def _parameters(kind: type, defaults: Mapping[str, Any]) -> list[inspect.Parameter]:
    hints = get_type_hints(kind)
    found = []
    for field in fields(kind):
        about, annotation = field.metadata, hints[field.name]
        default = defaults.get(field.name, field.default)
        declared = [f"--{(about.get('name') or field.name).replace('_', '-')}"]
        if get_origin(annotation) is tuple:
            annotation, default = list[str], list(default)
        option = typer.Option(*declared, help=about.get("help"), min=about.get("least"))
        found.append(
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=default,
                annotation=Annotated[annotation, option],
            )
        )
    return found
