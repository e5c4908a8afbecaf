"""Metanetworks that know less of the networks they take: statistics, a flat vector, a set of weights."""

from graph_metanetworks.nn.baselines.deepsets import DeepSets
from graph_metanetworks.nn.baselines.dmc import DMC
from graph_metanetworks.nn.baselines.statnn import StatNN

__all__ = ["DMC", "DeepSets", "StatNN"]
