"""Recipes by name."""

from pathlib import Path

import pytest

from graph_metanetworks.errors import ZooError
from graph_metanetworks.zoo.registry import absolute, make_recipe, options_of, recipe_class, reference_of
from support.zoo_recipes import Regressors


def test_by_module() -> None:
    assert recipe_class("support.zoo_recipes:Regressors") is Regressors
    assert reference_of(Regressors()) == "support.zoo_recipes:Regressors"


def test_by_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "recipes_of_a_user.py").write_text("from support.zoo_recipes import Regressors as Mine\n")
    assert recipe_class(f"{tmp_path / 'recipes_of_a_user.py'}:Mine") is Regressors
    monkeypatch.chdir(tmp_path)
    assert absolute("recipes_of_a_user.py:Mine") == f"{tmp_path / 'recipes_of_a_user.py'}:Mine"
    assert absolute("package.module:Mine") == "package.module:Mine"


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("divers", "there is no recipe 'divers'. Choose one of varying-cnns, diverse, small-cnns"),
        ("no_such_file.py:Mine", "cannot be imported: there is no file"),
        ("no.such.module:Mine", "cannot be imported"),
        ("support.zoo_recipes:Regresors", "Did you mean 'Regressors'"),
        ("support.zoo_recipes:Config", "is not a recipe: it must be a subclass"),
    ],
)
def test_unknown_recipes(reference: str, said: str) -> None:
    with pytest.raises(ZooError, match=said):
        recipe_class(reference)


def test_options() -> None:
    assert list(options_of(Regressors)) == ["steps", "checkpoints", "pause"]
    recipe = make_recipe("support.zoo_recipes:Regressors", {"steps": 7})
    assert recipe.options()["steps"] == 7
    with pytest.raises(ZooError, match=r"has no option depth, width. Its options are: steps: 'int' = 3"):
        make_recipe("support.zoo_recipes:Regressors", {"width": 1, "depth": 2})
    with pytest.raises(ZooError, match="steps must not be negative"):
        make_recipe("support.zoo_recipes:Regressors", {"steps": -1})
