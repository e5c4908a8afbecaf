"""Methods: metanetworks and baselines under one interface, by name."""

from graph_metanetworks.methods.method import Method, Output
from graph_metanetworks.methods.registry import METHODS, find_method

__all__ = ["METHODS", "Method", "Output", "find_method"]
