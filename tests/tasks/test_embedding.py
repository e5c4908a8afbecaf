"""Embeddings: before the last layer, invariant to symmetries, and refused where there is no such layer."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import graph_metanetworks as gmn
from graph_metanetworks.errors import TaskError
from graph_metanetworks.methods import METHODS, Output
from graph_metanetworks.tasks.embedders import Embedder, find_embedder, untrained_metanetwork
from graph_metanetworks.tasks.registry import make_task
from graph_metanetworks.tasks.runner import Runner, embeddings, predictions
from support.permuted import weights
from support.scaled_networks import labelled, scaled_zoo
from support.traced import sample, some_architectures, traced

OTHERS = ("statnn-boosting", "dmc", "mlp", "transformer", "inr2vec")  # no layer; see the order of neurons
INVARIANT = [name for name in METHODS if name not in OTHERS]


@pytest.fixture(scope="module")
def untrained() -> Embedder:
    return find_embedder("untrained")


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> gmn.Zoo:
    return scaled_zoo(tmp_path_factory.mktemp("embedding") / "zoo", 24)


@pytest.fixture(scope="module")
def runner(zoo: gmn.Zoo, tmp_path_factory: pytest.TempPathFactory) -> Runner:
    folder = tmp_path_factory.mktemp("run") / "gmn"
    gmn.train("accuracy", zoo, out=folder, setting="50", steps=4, rounds=2, batch_size=8, quiet=True)
    return gmn.load(folder)


@some_architectures()
def test_equal_up_to_a_symmetry_means_distance_zero(name: str, untrained: Embedder) -> None:
    graph, own = traced(name).graph, weights(name)
    permuted = sample(graph, seed=1).apply(own)
    first, second = untrained.embed(gmn.collate([(graph, own), (graph, permuted)]))
    assert torch.equal(first, second)
    assert first.isfinite().all() and first.any()


def test_other_networks_are_elsewhere(untrained: Embedder) -> None:
    graph, own = traced("mlp-relu").graph, weights("mlp-relu")
    torn = own | {"0.weight": own["0.weight"].flip(0)}  # permuted without its neighbours
    first, second = untrained.embed(gmn.collate([(graph, own), (graph, torn)]))
    assert (first - second).norm() > 1e-4


@pytest.mark.parametrize("method", INVARIANT)
@torch.no_grad()
def test_every_method_embeds_before_its_last_layer(method: str, zoo: gmn.Zoo) -> None:
    task = make_task("accuracy", {"method": method})
    networks = labelled(zoo).networks
    alike = np.flatnonzero(networks.architectures == networks.architectures[0])  # some take one depth only
    batch = networks.batch(alike[:6])
    model = task.make_model(Output(input_shape=(2,)))
    model.fit([batch])  # pyright: ignore
    model, batch = model.double().eval(), batch.to(torch.float64)
    found = model.embed(batch)  # pyright: ignore
    head = (model.readout if isinstance(model, gmn.GraphMetanetwork) else model).head  # pyright: ignore
    assert torch.allclose(head.second(found), model(batch))  # pyright: ignore
    stack = batch.stacks[0]
    one = {p.name: stack.weights[p.name][:, 0, 0].view(p.shape) for p in stack.graph.parameters}
    pair = gmn.collate([(stack.graph, one), (stack.graph, sample(stack.graph).apply(one))])
    first, second = embeddings(task, model, pair)
    assert torch.equal(first, second)


def test_the_order_of_neurons_is_seen_by_dmc(zoo: gmn.Zoo) -> None:
    task, batch = make_task("accuracy", {"method": "dmc"}), labelled(zoo).networks.batch(range(6))
    model = task.make_model(Output()).double()
    assert embeddings(task, model, batch).shape == (6, 96)


def test_trees_have_no_last_layer(zoo: gmn.Zoo) -> None:
    task, batch = make_task("accuracy", {"method": "statnn-boosting"}), labelled(zoo).networks.batch([0])
    with pytest.raises(TaskError, match="statnn-boosting has no embedding"):
        embeddings(task, task.make_model(Output()), batch)


@pytest.mark.parametrize("blocks", ["message-passing", "matrix-product"])
@pytest.mark.parametrize("level", ["node", "edge"])
@torch.no_grad()
def test_results_per_node_and_edge_are_averaged(blocks, level, zoo: gmn.Zoo) -> None:
    batch = labelled(zoo).networks.batch(range(5)).to(torch.float64)
    net = gmn.GraphMetanetwork(8, 2, out=3, level=level, blocks=blocks).double()
    found, head = net.embed(batch), net.readout.head  # pyright: ignore
    split = batch.split_nodes if level == "node" else batch.split_edges
    means = torch.stack([own.mean(0) for own in split(net(batch))])  # the last layer is linear
    last = head.second if level == "node" else head
    assert torch.allclose(last(found), means)


def test_a_runner_embeds_whatever_it_predicts(runner: Runner, zoo: gmn.Zoo) -> None:
    found = runner.embed(zoo)
    assert found.shape == (24, 64) and found.dtype == torch.float32
    assert torch.equal(runner.embed(str(zoo.folder), quiet=True), found)
    model = zoo[3].build()
    graph = gmn.trace(model, torch.zeros(1, 2))
    assert torch.equal(runner.embed(model, torch.zeros(1, 2))[0], found[3])
    assert torch.equal(runner.embed([(graph, model.state_dict())])[0], found[3])
    assert torch.equal(runner.embed(gmn.collate([(graph, model.state_dict())]))[0], found[3])


def test_a_saved_metanetwork_and_an_untrained_one(tmp_path: Path, zoo: gmn.Zoo, untrained: Embedder) -> None:
    untrained_metanetwork().save_pretrained(tmp_path)
    batch = labelled(zoo).networks.batch(range(3))
    assert torch.equal(find_embedder(str(tmp_path)).embed(batch), untrained.embed(batch))
    with pytest.raises(TaskError, match="holds neither a run"):
        find_embedder(str(tmp_path / "nothing"))


def test_a_readout_of_ones_own_needs_a_head(zoo: gmn.Zoo) -> None:
    class Own(gmn.nn.Readout):
        def forward(self, state, links):
            return torch.zeros(len(links.batch), 1)

    net = gmn.GraphMetanetwork(8, 1, readout=Own())
    with pytest.raises(gmn.UnsupportedNetwork, match="Own has no last layer"):
        net.embed(labelled(zoo).networks.batch([0]))


class OnDevice(nn.Module):
    """A model that only runs where its weight is."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1, device="meta", dtype=torch.float64))

    def forward(self, batch: gmn.Batch) -> torch.Tensor:
        assert batch.device == self.weight.device and batch.dtype == torch.float64
        return torch.ones(len(batch), 1, dtype=torch.float64)


def test_networks_go_to_the_device_of_the_model(zoo: gmn.Zoo) -> None:
    """A trained model stays on its device, and results come back to that of the networks."""
    found = predictions(make_task("accuracy", {}), OnDevice(), labelled(zoo).networks.batch([0, 1]))
    assert found.device.type == "cpu" and found.shape == (2,)
