"""Find Python objects named by a string: `module:name` or `path/to/file.py:name`."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any

from graph_metanetworks.errors import TraceError


class UnknownTarget(TraceError):
    """A string names an object that does not exist or has the wrong type."""


def find_object(target: str) -> Any:
    """Return the object that a target names.

    >>> find_object("torch.nn:Linear").__name__
    'Linear'
    """
    place, colon, name = target.rpartition(":")
    if not colon or not place or not name:
        raise UnknownTarget(
            f"'{target}' is not a target. Write module:name or path/to/file.py:name, such as torch.nn:Linear."
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
    # modules in the working directory can be named too, as with python -m
    sys.path.insert(0, "")
    try:
        return importlib.import_module(name)
    except Exception as error:
        raise UnknownTarget(f"importing '{name}' failed: {type(error).__name__}: {error}.") from error


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise UnknownTarget(f"there is no file '{path}'.")
    # the file can import its neighbours, as with python file.py
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


def absolute(reference: str) -> str:
    """Return a reference that means the same in every working directory.

    >>> absolute("torch.nn:Linear")
    'torch.nn:Linear'
    """
    place, colon, name = reference.rpartition(":")
    return f"{Path(place).resolve()}{colon}{name}" if place.endswith(".py") else reference


def reference_to(kind: type | Callable[..., Any]) -> str:
    """Return the reference by which `find_object` finds a class or a function again.

    >>> reference_to(Path)
    'pathlib:Path'
    """
    main = getattr(sys.modules["__main__"], "__file__", None)
    if kind.__module__ == "__main__" and main:
        return absolute(f"{main}:{kind.__qualname__}")
    return f"{kind.__module__}:{kind.__qualname__}"
