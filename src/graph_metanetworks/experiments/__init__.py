"""Experiments: a grid of runs and its report."""

from graph_metanetworks.experiments.grid import Cell, Grid, Refused, allowed_settings, run_grid
from graph_metanetworks.experiments.results import Results
from graph_metanetworks.experiments.write_report import write_report

__all__ = ["Cell", "Grid", "Refused", "Results", "allowed_settings", "run_grid", "write_report"]
