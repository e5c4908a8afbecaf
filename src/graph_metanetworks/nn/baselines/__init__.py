"""Baselines that use less of a network's structure: statistics, the flat vector or the set of weights."""

from graph_metanetworks.nn.baselines.dmc import DMC
from graph_metanetworks.nn.baselines.probed_statnn import ProbedStatNN
from graph_metanetworks.nn.baselines.statnn import StatNN
from graph_metanetworks.nn.baselines.weight_set import WeightSet

__all__ = ["DMC", "ProbedStatNN", "StatNN", "WeightSet"]
