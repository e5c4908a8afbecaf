"""The recipe of docs/recipes.md is short, fits in one file, and is built by the command below it."""

import re
import shlex
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from graph_metanetworks.cli import app
from graph_metanetworks.zoo import Zoo

PAGE = Path(__file__).resolve().parents[3] / "docs" / "recipes.md"


def test_the_recipe_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = PAGE.read_text().split("## Your own recipe")[1]
    code = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0]
    assert len(code.splitlines()) <= 20
    monkeypatch.chdir(tmp_path)
    Path("my_recipes.py").write_text(code)
    for command in re.findall(r"^gmn (zoo .*)$", page, re.MULTILINE):
        quick = command.replace("--count 100", "--count 4 --workers 1 --quiet")
        result = CliRunner().invoke(app, shlex.split(quick))
        assert result.exit_code == 0, result.output
    (network, *_) = zoo = Zoo.open("zoos/mlps")
    assert len(zoo) == 4 and network.config.width in (16, 32, 64)
    assert network.build()(torch.zeros(2, 1, 8, 8)).shape == (2, 10)
