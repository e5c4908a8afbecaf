"""Sphinx: Markdown pages, docstrings, the furo theme, and tables that are generated from the code."""

import sys
from pathlib import Path

import graph_metanetworks

sys.path.insert(0, str(Path(__file__).parent))
from tables import PLACE, fill

project = "graph_metanetworks"
author = "Graph Metanetworks contributors"
copyright = author
release = graph_metanetworks.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
default_role = "code"  # docstrings write `name` for code
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
html_theme = "furo"
html_title = "graph_metanetworks"


def add_tables(app, page, source):
    source[0] = fill(source[0])


def pages_with_tables(*_):
    """Read these pages again in every build: the code may have changed."""
    return [page.stem for page in Path(__file__).parent.glob("*.md") if PLACE.search(page.read_text())]


def setup(app):
    app.connect("source-read", add_tables)
    app.connect("env-get-outdated", pages_with_tables)
