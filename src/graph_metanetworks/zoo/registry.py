"""Recipes by name: built-in ones, and users' own as `file.py:Class` or `package.module:Class`."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from graph_metanetworks.errors import ZooError
from graph_metanetworks.lookup import UnknownTarget, find_object
from graph_metanetworks.zoo.recipe import Recipe

_CLASSIFIERS = "graph_metanetworks.zoo.recipes.classifiers"
_INRS = "graph_metanetworks.zoo.recipes.inrs"
BUILT_IN = {
    "varying-cnns": f"{_CLASSIFIERS}:VaryingCnns",
    "diverse": f"{_CLASSIFIERS}:Diverse",
    "small-cnns": f"{_CLASSIFIERS}:SmallCnns",
    "cnn-widths": f"{_CLASSIFIERS}:CnnWidths",
    "sine-inrs": f"{_INRS}:SineInrs",
    "image-inrs": f"{_INRS}:ImageInrs",
}


def recipe_class(reference: str) -> type[Recipe[Any]]:
    """Import the class of a recipe."""
    if reference not in BUILT_IN and ":" not in reference:
        raise ZooError(
            f"there is no recipe '{reference}'. Choose one of {', '.join(BUILT_IN)}, or name your own "
            "as my_recipes.py:Class or package.module:Class."
        )
    try:
        found = find_object(BUILT_IN.get(reference, reference))
    except UnknownTarget as error:
        raise ZooError(f"the recipe {reference} cannot be imported: {error}") from error
    if not (isinstance(found, type) and issubclass(found, Recipe)):
        raise ZooError(
            f"{reference} is not a recipe: it must be a subclass of graph_metanetworks.zoo.Recipe."
        )
    return found


def absolute(reference: str) -> str:
    """Return a reference that does not depend on the working directory."""
    place, colon, name = reference.rpartition(":")
    return f"{Path(place).resolve()}{colon}{name}" if place.endswith(".py") else reference


def reference_of(recipe: Recipe[Any]) -> str:
    """Return the name of a recipe in zoo.json."""
    kind = type(recipe)
    place = f"{kind.__module__}:{kind.__qualname__}"
    main = getattr(sys.modules["__main__"], "__file__", None)
    if kind.__module__ == "__main__" and main:
        return absolute(f"{main}:{kind.__qualname__}")
    return next((name for name, target in BUILT_IN.items() if target == place), place)


def options_of(kind: type[Recipe[Any]]) -> dict[str, inspect.Parameter]:
    """Return the options of a recipe, which are the arguments of its constructor.

    >>> class Mine(Recipe):
    ...     def __init__(self, *, data: str = "digits", steps: int = 300) -> None: ...
    >>> [(option.name, option.default) for option in options_of(Mine).values()]
    [('data', 'digits'), ('steps', 300)]
    """
    return dict(inspect.signature(kind).parameters)


def make_recipe(reference: str, options: Mapping[str, Any]) -> Recipe[Any]:
    """Create a recipe with its data, from its name and its options."""
    kind = recipe_class(reference)
    known = options_of(kind)
    unknown = sorted(options.keys() - known.keys())
    if unknown:
        choices = ", ".join(map(str, known.values())) or "none"
        raise ZooError(f"{reference} has no option {', '.join(unknown)}. Its options are: {choices}.")
    try:
        return kind(**options)
    except (TypeError, ValueError, OSError, ImportError) as error:
        raise ZooError(str(error)) from error


def recipe_from(reference: str, options: dict[str, Any]) -> Recipe[Any]:
    """Recreate a recipe from zoo.json, without its data."""
    return recipe_class(reference).from_options(options)
