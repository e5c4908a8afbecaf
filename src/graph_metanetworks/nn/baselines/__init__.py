"""Baselines: statistics, the flat vector or the set of weights; neural functionals on chains of layers."""

from graph_metanetworks.nn.baselines.dmc import DMC
from graph_metanetworks.nn.baselines.dws import Dws
from graph_metanetworks.nn.baselines.nfn import NfnHnp, NfnNp, NfnPt
from graph_metanetworks.nn.baselines.nft import Nft
from graph_metanetworks.nn.baselines.probed_statnn import ProbedStatNN
from graph_metanetworks.nn.baselines.statnn import StatNN
from graph_metanetworks.nn.baselines.weight_set import WeightSet

__all__ = ["DMC", "Dws", "NfnHnp", "NfnNp", "NfnPt", "Nft", "ProbedStatNN", "StatNN", "WeightSet"]
