"""The README and the pages in docs/ are true: their code runs, and they leave nothing out."""

import re
import runpy
import shlex
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from graph_metanetworks.cli import app
from support.menagerie import MENAGERIE
from support.traced import every_architecture, traced

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
PACKAGE = ROOT / "src" / "graph_metanetworks"
CODE = runpy.run_path(str(ROOT / "docs" / "pages.py"))


IMAGES = ROOT / "docs" / "images"


@pytest.mark.parametrize("page", [p for p in PAGES if CODE["blocks"](p)], ids=lambda page: page.name)
def test_code_runs(page: Path, tmp_path: Path) -> None:
    """Pictures that a page draws have the same words and numbers as those in the repository."""
    (tmp_path / "images").mkdir()
    CODE["run"](page, tmp_path)
    drawn = {IMAGES / picture.name: picture for picture in (tmp_path / "images").iterdir()}
    if page.name == "README.md":
        drawn[IMAGES / "quick-start.svg"] = tmp_path / "graph.svg"
    for shown, picture in drawn.items():
        assert words(shown) == words(picture), f"{shown.name} is out of date: run docs/make_images.py"


def words(picture: Path) -> list[str]:
    texts = re.findall(r"<text.*?</text>", picture.read_text(), re.DOTALL)
    return [word for text in texts for word in re.sub("<[^>]+>", " ", text).split()]


NETWORKS = """
from torch import nn

def classifier(width):
    pooled = nn.AdaptiveAvgPool2d(1), nn.Flatten()
    return nn.Sequential(nn.Conv2d(3, width, 3), nn.ReLU(), *pooled, nn.Linear(width, 10))
"""


@pytest.mark.parametrize("command", [c for page in PAGES for c in CODE["commands"](page)])
def test_commands_run(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "networks.py").write_text(NETWORKS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    result = CliRunner().invoke(app, shlex.split(command))
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """Check links to files and pictures of the repository. External links are not followed."""
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_are_named_exist(page: Path) -> None:
    named = set(re.findall(r"`(\w+/[\w/]+\.py)`", page.read_text())) - {"path/to/file.py"}
    missing = [f for f in sorted(named) if not (ROOT / f).exists() and not (PACKAGE / f).exists()]
    assert not missing, f"{page.name} names {', '.join(missing)}"


def test_every_picture_is_shown() -> None:
    text = "".join(page.read_text() for page in PAGES)
    unused = [i.name for i in IMAGES.iterdir() if f"images/{i.name}" not in text]
    assert not unused


def test_every_module_has_a_summary() -> None:
    """The list of modules in the docs is generated from the first lines of their docstrings."""
    modules = runpy.run_path(str(ROOT / "docs" / "modules.py"))
    layers = map(modules["summaries"], modules["layers"]())
    summaries = {path: text for layer in layers for path, text in layer.items()}
    assert len(summaries) > 200
    assert not [path for path, text in summaries.items() if not text]


def test_every_page_is_in_the_table_of_contents() -> None:
    listed = re.findall(r"^([\w-]+)$", (ROOT / "docs" / "index.md").read_text(), re.MULTILINE)
    pages = {page.stem for page in (ROOT / "docs").glob("*.md")} - {"index"}
    assert sorted(listed) == sorted(pages)


@every_architecture
def test_every_kind_is_explained(name: str) -> None:
    text, graph = (ROOT / "docs" / "parameter-graph.md").read_text(), traced(name).graph
    unexplained = [kind for kind in (*graph.node_kinds, *graph.edge_kinds) if f"`{kind}`" not in text]
    assert not unexplained, f"docs/parameter-graph.md does not explain {', '.join(unexplained)}"


def test_the_page_of_supported_networks_counts_the_menagerie() -> None:
    text = (ROOT / "docs" / "supported.md").read_text()
    counted = {
        family: int(number) for family, number in re.findall(r"^\| `(\w+)` \| (\d+) \|", text, re.MULTILINE)
    }
    families = [entry.family for entry in MENAGERIE]
    assert counted == {family: families.count(family) for family in families}
    assert f"{len(MENAGERIE)} architectures" in text
