"""Sphinx: Markdown pages, docstrings, the furo theme, and the generated list of modules."""

import sys
from pathlib import Path

import graph_metanetworks

sys.path.insert(0, str(Path(__file__).parent))
from modules import listing

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


def add_modules(app, page, source):
    if page == "modules":
        source[0] += "\n" + listing()


def setup(app):
    app.connect("source-read", add_modules)
    app.connect("env-get-outdated", lambda *_: ["modules"])
