"""Predict a network's accuracy from its weights alone (section 5.1 of the paper)."""

from graph_metanetworks.tasks.accuracy.data import LabelledZoo
from graph_metanetworks.tasks.accuracy.methods import METHODS
from graph_metanetworks.tasks.accuracy.options import Machine, Options
from graph_metanetworks.tasks.accuracy.predictor import Prediction, Predictor
from graph_metanetworks.tasks.accuracy.training import train, tune
from graph_metanetworks.tasks.traced_zoo import TracedZoo

__all__ = [
    "METHODS",
    "LabelledZoo",
    "Machine",
    "Options",
    "Prediction",
    "Predictor",
    "TracedZoo",
    "train",
    "tune",
]
