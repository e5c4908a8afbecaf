"""Networks named by a string: `module:name` or `path/to/file.py:name`."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import nn

from graph_metanetworks.errors import TraceError


class UnknownTarget(TraceError):
    """The command line names something that is not a network and does not make one."""


def load_network(target: str, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None) -> nn.Module:
    """The network that a target names, or that it returns when called.

    >>> load_network("torch.nn:Linear", [3, 2])
    Linear(in_features=3, out_features=2, bias=True)
    """
    kwargs = kwargs or {}
    found = _find(target)
    if isinstance(found, nn.Module):
        if args or kwargs:
            raise UnknownTarget(f"'{target}' is a network already, so it takes no --arg or --kwarg.")
        return found
    if not callable(found):
        raise UnknownTarget(
            f"'{target}' is a {type(found).__name__}: name an nn.Module class, a function that returns a "
            "network, or a network."
        )
    try:
        network = found(*args, **kwargs)
    except Exception as error:
        raise UnknownTarget(
            f"making {target} failed: {type(error).__name__}: {error}. Pass what it needs with "
            "--arg and --kwarg."
        ) from error
    if not isinstance(network, nn.Module):
        raise UnknownTarget(f"'{target}' returned a {type(network).__name__}, not an nn.Module.")
    return network


def parse_literal(text: str) -> Any:
    """A Python literal; anything else is a string.

    >>> [parse_literal(text) for text in ("3", "(1, 2)", "None", "gelu")]
    [3, (1, 2), None, 'gelu']
    """
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def parse_keyword(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise UnknownTarget(f"--kwarg takes name=value, such as bias=False, not '{text}'.")
    return name, parse_literal(value)


def _find(target: str) -> Any:
    place, colon, name = target.rpartition(":")
    if not colon or not place or not name:
        raise UnknownTarget(
            f"'{target}' does not name a network: write module:name or path/to/file.py:name, such as "
            "torch.nn:Linear."
        )
    found: Any = _import_file(Path(place)) if place.endswith(".py") else _import_module(place)
    for part in name.split("."):
        if not hasattr(found, part):
            near = get_close_matches(part, dir(found), n=1)
            hint = f" Did you mean '{near[0]}'?" if near else ""
            raise UnknownTarget(f"there is no '{part}' in {place}.{hint}")
        found = getattr(found, part)
    return found


def _import_module(name: str) -> ModuleType:
    # what lies in the working directory can be named too, as with python -m
    sys.path.insert(0, "")
    try:
        return importlib.import_module(name)
    except Exception as error:
        raise UnknownTarget(f"importing '{name}' failed: {type(error).__name__}: {error}.") from error


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise UnknownTarget(f"there is no file '{path}'.")
    # what lies beside the file can be imported by it, as with python file.py
    sys.path.insert(0, str(path.parent.resolve()))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses and pickle look modules up by name
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UnknownTarget(f"running '{path}' failed: {type(error).__name__}: {error}.") from error
    return module
