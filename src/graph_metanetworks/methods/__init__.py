"""Methods: metanetworks and baselines under one interface, by name."""

from graph_metanetworks.methods.method import Method, Output
from graph_metanetworks.methods.registry import METHODS, find_method
from graph_metanetworks.methods.variants import MODIFIERS

__all__ = ["METHODS", "MODIFIERS", "Method", "Output", "find_method"]
