"""The paper's first experiment: methods against settings, and how far a predictor can be trusted."""

from graph_metanetworks.experiments.accuracy.cells import Cell, Plan, run_cells
from graph_metanetworks.experiments.accuracy.report import write_report
from graph_metanetworks.experiments.accuracy.results import Results

__all__ = ["Cell", "Plan", "Results", "run_cells", "write_report"]
