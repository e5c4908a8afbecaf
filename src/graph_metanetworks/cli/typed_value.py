"""Parse words of the command line according to type annotations."""

from __future__ import annotations

import inspect
import math
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from graph_metanetworks.checkpoints.example import parse_literal

YES, NO = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
TRUTH: dict[str, bool] = {**dict.fromkeys(YES, True), **dict.fromkeys(NO, False)}
ANYTHING = (Path, str)  # these accept any word, so they come last in a union


def typed_value(text: str, kind: Any) -> Any:
    """Parse a word as the first type of a union that accepts it. A ValueError says what is expected.

    >>> typed_value("no", bool), typed_value("none", int | None), typed_value("1e-3", float | None)
    (False, None, 0.001)
    >>> typed_value("(3, 4)", tuple[int, ...]), typed_value("8", str), typed_value("8", Any)
    ((3, 4), '8', 8)
    """
    for one in sorted(members(kind), key=lambda one: one in ANYTHING):
        try:
            return KNOWN[one][1](text) if one in KNOWN else _other(text, one)
        except (KeyError, ValueError):  # try the next type
            continue
    raise ValueError(expected(kind))


def expected(kind: Any) -> str:
    """Describe the words that a type accepts.

    >>> expected(int | None), expected(Literal["constant", "cosine"])
    ('a whole number or None', 'constant or cosine')
    """
    return " or ".join(_expected(one) for one in members(kind))


def members(kind: Any) -> tuple[Any, ...]:
    """Return the types of a union, or the type itself."""
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)


def _number(text: str) -> float:
    value = float(text)
    if math.isnan(value):  # not equal to itself, so the command could not be resumed
        raise ValueError
    return value


KNOWN: dict[Any, tuple[str, Callable[[str], Any]]] = {
    bool: ("true or false", lambda text: TRUTH[text.lower()]),
    int: ("a whole number", int),
    float: ("a number", _number),
    type(None): ("None", lambda text: {"none": None}[text.lower()]),
    Path: ("a path", Path),
    str: ("a word", str),
    Any: ("a value", parse_literal),
    inspect.Parameter.empty: ("a value", parse_literal),
}


def _other(text: str, kind: Any) -> Any:
    if get_origin(kind) is Literal:
        return {str(choice): choice for choice in get_args(kind)}[text]
    value = parse_literal(text)
    plain = get_origin(kind) or kind
    if isinstance(plain, type) and not isinstance(value, plain):
        raise ValueError
    return value


def _expected(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return " or ".join(map(str, get_args(kind)))
    return KNOWN[kind][0] if kind in KNOWN else inspect.formatannotation(kind)
