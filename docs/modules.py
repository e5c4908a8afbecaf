"""List the modules of the package by layer, with the first line of each docstring, as Markdown."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "graph_metanetworks"


def layers() -> list[str]:
    """Return the packages and modules of the top level, from top to bottom."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (contract,) = (c for c in contracts if c.get("containers") == ["graph_metanetworks"])
    return [name.strip() for row in contract["layers"] for name in row.split("|")]


def summary(module: Path) -> str:
    """Return the first line of a module's docstring, or an empty string."""
    return (ast.get_docstring(ast.parse(module.read_text())) or "").partition("\n")[0]


def summaries(layer: str) -> dict[str, str]:
    """Return the summary of each module of a layer, by its path in the package."""
    files = [PACKAGE / f"{layer}.py", *sorted((PACKAGE / layer).rglob("*.py"))]
    return {
        str(file.relative_to(PACKAGE)): summary(file)
        for file in files
        if file.exists() and file.read_text().strip()
    }


def listing() -> str:
    """Return the list as Markdown, with a section for each layer."""
    sections = []
    for layer in layers():
        lines = [f"- `{path}`: {text}" for path, text in summaries(layer).items()]
        sections.append("\n".join([f"## {layer}", "", *lines]))
    return "\n\n".join(sections)
