"""Sphinx: Markdown pages, docstrings, the furo theme."""

import graph_metanetworks

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
