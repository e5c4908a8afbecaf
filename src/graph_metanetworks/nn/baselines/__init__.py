"""Baselines: statistics, the flat vector or the set of weights; neural functionals on chains of layers."""

from graph_metanetworks.nn.baselines.dmc import DMC
from graph_metanetworks.nn.baselines.dws import Dws
from graph_metanetworks.nn.baselines.flat_mlp import FlatMlp
from graph_metanetworks.nn.baselines.inr2vec import Inr2Vec
from graph_metanetworks.nn.baselines.neuron_transformer import NeuronTransformer
from graph_metanetworks.nn.baselines.nfn import NfnHnp, NfnNp, NfnPt
from graph_metanetworks.nn.baselines.nft import Nft
from graph_metanetworks.nn.baselines.probed_statnn import ProbedStatNN
from graph_metanetworks.nn.baselines.statnn import StatNN
from graph_metanetworks.nn.baselines.weight_set import WeightSet

__all__ = [
    "DMC",
    "Dws",
    "FlatMlp",
    "Inr2Vec",
    "NeuronTransformer",
    "NfnHnp",
    "NfnNp",
    "NfnPt",
    "Nft",
    "ProbedStatNN",
    "StatNN",
    "WeightSet",
]
