"""Build the network of a checkpoint by a user's function, which asks for what it needs by its arguments."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from torch import nn

from graph_metanetworks.checkpoints.checkpoint import listed
from graph_metanetworks.checkpoints.example import Example
from graph_metanetworks.errors import CheckpointError
from graph_metanetworks.lookup import UnknownTarget, absolute, find_object, reference_to

COLUMN = "architecture"  # of a table, which names the network of each file
GIVEN = ("path", "row", "shapes", "config")  # arguments with a meaning of their own
ORDER = ("path", "row", "shapes")  # what arguments with other names mean
Shapes = dict[str, tuple[int, ...]]
Build = Callable[..., Any] | nn.Module | Mapping[str, Callable[..., Any]] | str


@dataclass(frozen=True)
class Facts:
    """What is known about a checkpoint before its network is built."""

    path: Path
    row: Mapping[str, Any] = field(default_factory=dict)  # of a table of labels
    shapes: Callable[[], Shapes] = dict  # of the tensors in the file, by name
    config: Mapping[str, Any] = field(default_factory=dict)  # as saved with the weights


@dataclass(frozen=True)
class Builder:
    """A function, a class or a network; or several, of which a column of the table names one.

    A function gets the arguments that it asks for: `path`, `row` (of the table of labels), `shapes` (of the
    tensors in the file), `config` (saved with the weights), or a column of the table. It returns a network,
    or a network and an example input.

    >>> build = Builder.of(lambda width: nn.Linear(width, 1))
    >>> build(Facts(Path("a.pt"), {"width": 3}))[0]
    Linear(in_features=3, out_features=1, bias=True)
    """

    build: Build
    reference: str | None = None  # by which it is found again
    column: str = COLUMN
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the reference, not the function: another process has not imported the user's file."""
        return vars(self) | ({"build": None} if self.reference else {})

    def __setstate__(self, state: dict[str, Any]) -> None:
        found = {"build": _find_once(state["reference"])} if state["reference"] else {}
        vars(self).update(state | found)

    @classmethod
    def of(cls, build: Build, **options: Any) -> Builder:
        """Return the builder for a function, a class, a network, a mapping, or the name of one."""
        if isinstance(build, str):
            reference = absolute(build) if ":" in build else str(Path(build).resolve())
            return cls(_find(build), reference, **options)
        return cls(build, _reference_to(build), **options)

    def __call__(self, facts: Facts) -> tuple[nn.Module, Example | None]:
        """Build the network of a checkpoint, with its example input if the function returns one."""
        make = self._chosen(facts)
        if isinstance(make, nn.Module):
            return make, None
        arguments, meant = self._arguments(make, facts)
        try:
            made = make(*self.args, **arguments)
        except CheckpointError:
            raise
        except Exception as error:  # of the user's function
            guessed = "".join(
                f". '{name}' was given the {what} of the file: no column of a table has that name"
                for name, what in meant.items()
            )
            raise CheckpointError(
                f"building the network of '{facts.path}' failed: {type(error).__name__}: {error}{guessed}"
            ) from error
        network, example = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
        if not isinstance(network, nn.Module):
            raise CheckpointError(
                f"{self._name} returned an object of type {type(made).__name__}, not an nn.Module."
            )
        return network, None if example is None else Example.of(example)

    @cached_property
    def needs_config(self) -> bool:
        """Whether the saved config has to be kept to build the network again."""
        makers = self.build.values() if isinstance(self.build, Mapping) else [self.build]
        return any(callable(make) and "config" in _parameters(make) for make in makers)

    @property
    def _name(self) -> str:
        return self.reference or getattr(self.build, "__name__", repr(self.build))

    def _chosen(self, facts: Facts) -> Callable[..., Any] | nn.Module:
        if not isinstance(self.build, str | Mapping):
            return self.build
        name = facts.row.get(self.column)
        if not isinstance(name, str):
            raise CheckpointError(
                f"the network of '{facts.path}' is unknown: its row of the table names none in the column "
                f"'{self.column}'. Its columns are {listed(facts.row) or 'none'}."
            )
        if isinstance(self.build, Mapping):
            if name not in self.build:
                raise CheckpointError(f"there is no builder of '{name}', only of {listed(self.build)}.")
            return self.build[name]
        try:
            return find_object(name if ":" in name else f"{self.build}:{name}")
        except UnknownTarget as error:
            raise CheckpointError(str(error)) from error

    def _arguments(self, make: Callable[..., Any], facts: Facts) -> tuple[dict[str, Any], Mapping[str, str]]:
        """Return the values of arguments, and what arguments are taken for that have a user's own names."""
        wanted = list(_parameters(make).values())[len(self.args) :]
        values: dict[str, Any] = dict(self.kwargs)
        unknown = []
        for parameter in wanted:
            name = parameter.name
            if name in values:
                continue
            if name in GIVEN:
                values[name] = facts.shapes() if name == "shapes" else getattr(facts, name)
            elif name in facts.row:
                values[name] = facts.row[name]
            elif parameter.default is parameter.empty:
                unknown.append(name)
        if not unknown:
            return values, {}
        if len(unknown) == len(wanted) in (1, len(ORDER)):  # all are called by the user's own names
            meant = dict(zip(unknown, ORDER, strict=False))
            known = {n: facts.shapes() if m == "shapes" else getattr(facts, m) for n, m in meant.items()}
            return known, meant
        raise CheckpointError(
            f"{self._name} needs {listed(unknown)}, and neither the table nor the file says what that is. An "
            f"argument is {', '.join(GIVEN)}, or a column of the table: {listed(facts.row) or 'none'}."
        )


def _find(reference: str) -> Build:
    """Return what a reference names. One without a name is a file, whose functions a column names."""
    return find_object(reference) if ":" in reference else reference


@cache
def _find_once(reference: str) -> Build:
    """The same for another process, which gets many builders: it runs the user's file once."""
    return _find(reference)


def _reference_to(build: Any) -> str | None:
    """Return the name by which a function or class is found again; None for a lambda, say."""
    if not (inspect.isfunction(build) or inspect.isclass(build)) or "<" in build.__qualname__:
        return None
    file = getattr(sys.modules.get(build.__module__), "__file__", None)
    if file and "." not in build.__module__:  # a script, or a module of the working directory
        return f"{Path(file).resolve()}:{build.__qualname__}"
    return reference_to(build) if file else None


def _parameters(make: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return the parameters that can be given by name."""
    try:
        found = inspect.signature(make).parameters
    except (TypeError, ValueError):
        return {}
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {name: parameter for name, parameter in found.items() if parameter.kind in kinds}
