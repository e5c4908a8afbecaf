"""Predict a network's accuracy from its weights alone (section 5.1 of the paper)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from graph_metanetworks.methods.registry import METHODS
from graph_metanetworks.tasks import runs
from graph_metanetworks.tasks.accuracy.data import LabelledZoo
from graph_metanetworks.tasks.accuracy.predictor import Prediction, Predictor
from graph_metanetworks.tasks.accuracy.task import Accuracy, Options
from graph_metanetworks.tasks.traced_zoo import TracedZoo
from graph_metanetworks.training.options import Machine
from graph_metanetworks.training.run_folder import Run
from graph_metanetworks.training.tuning import RATES

__all__ = [
    "METHODS",
    "Accuracy",
    "LabelledZoo",
    "Machine",
    "Options",
    "Prediction",
    "Predictor",
    "TracedZoo",
    "train",
    "tune",
]


def train(data: LabelledZoo, out: Path, options: Options, machine: Machine | None = None) -> Run:
    """Train a predictor of accuracy; see `graph_metanetworks.tasks.runs.train`."""
    return runs.train(Accuracy(options), data, out, machine)


def tune(
    data: LabelledZoo,
    out: Path,
    options: Options,
    machine: Machine | None = None,
    *,
    rates: Sequence[float] = RATES,
) -> Run:
    """Train with each learning rate and keep the best; see `graph_metanetworks.tasks.runs.tune`."""
    return runs.tune(Accuracy(options), data, out, machine, rates=rates)
