"""Metanetworks need no extra; where one is missed, it is named."""

import subprocess
import sys

SCRIPT = """
import sys
for package in ("torch_geometric", "sklearn", "lightning", "pyarrow", "matplotlib", "typer"):
    sys.modules[package] = None  # as if it were not installed

import torch
import graph_metanetworks as gmn
from graph_metanetworks.nn.baselines import DMC, StatNN
from graph_metanetworks.nn.baselines.boosting import BoostedStatNN

model = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
graph = gmn.trace(model, torch.zeros(1, 2))
batch = gmn.collate([(graph, model.state_dict())] * 3)
for options in ({}, {"engine": "stream"}, {"engine": "edge_list"}, {"blocks": gmn.nn.Grit(heads=2, steps=2)}):
    network = gmn.GraphMetanetwork(8, 2, readout="tensors", **options)
    network.fit([batch])
    assert network(batch).shape == (3, 1)
for network in (DMC((4, 6), 8), StatNN(8), BoostedStatNN()):
    network.fit([batch])
try:
    network.grow(network.statistics(batch), torch.rand(3))
except gmn.MissingExtra as error:
    assert "graph_metanetworks[" in str(error), error
else:
    raise AssertionError("boosting needs sklearn")
"""


def test_without_extras() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
