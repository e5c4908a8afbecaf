"""Methods by name: their sizes, and what training needs of each."""

from collections import Counter
from functools import cache

import pytest
import torch
from torch import nn

import graph_metanetworks as gmn
from graph_metanetworks.errors import TaskError
from graph_metanetworks.methods import METHODS, Output, find_method
from graph_metanetworks.methods.method import as_metanetwork, count_parameters
from graph_metanetworks.methods.registry import BUDGETS
from support.scaled_networks import HIDDEN, Config, ScaledNetworks

by_gradient = pytest.mark.parametrize("name", [name for name, m in METHODS.items() if m.by_gradient])


CHAINS = ("nfn-np", "nfn-hnp", "nfn-pt", "nft", "dws")
ONE_ARCHITECTURE = ("mlp", "transformer", "inr2vec")


@cache
def networks(*families: str) -> gmn.Batch:
    """Two networks of each architecture of a small zoo."""
    recipe = ScaledNetworks()
    configs = [Config(family, width, 0.5, 0.5) for family in families for width in HIDDEN[family]]
    graphs = [gmn.trace(recipe.build(config), *recipe.example(config)) for config in configs]
    trained = [recipe.train([config] * 2, [0, 1], lambda share: None) for config in configs]
    return gmn.collate([(g, own.state_dict) for g, pair in zip(graphs, trained, strict=True) for own in pair])


def plain_mlps() -> gmn.Batch:
    model = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
    return gmn.collate([(gmn.trace(model, torch.zeros(1, 2)), model.state_dict())] * 4)


@pytest.fixture
def batch(name: str) -> gmn.Batch:
    """What a method takes: those on chains take networks of one depth, some only one architecture."""
    if name in ONE_ARCHITECTURE:
        return plain_mlps()
    return networks("shallow") if name in CHAINS else networks(*HIDDEN)


def made(name: str, size: str, batch: gmn.Batch, **output) -> nn.Module:
    recording = batch.graphs[0].recording
    assert recording is not None
    return METHODS[name].make(size, Output(**output, input_shape=recording.input_shape))


def fitted(name: str, size: str, batch: gmn.Batch) -> nn.Module:
    model = made(name, size, batch)
    as_metanetwork(model).fit([batch])
    return model


@by_gradient
@pytest.mark.parametrize("size", BUDGETS)
def test_sizes_are_near_their_budget(name: str, size: str, batch: gmn.Batch) -> None:
    near = {"paper": 0.03, "small": 0.16}[size]
    assert count_parameters(fitted(name, size, batch)) == pytest.approx(BUDGETS[size], rel=near)


@by_gradient
def test_every_parameter_has_a_gradient_whatever_the_batch(name: str, batch: gmn.Batch) -> None:
    """Processes that train together wait for the gradients of all parameters."""
    model = fitted(name, "small", batch)
    if name in (*CHAINS, *ONE_ARCHITECTURE):  # all batches have the same layers
        model(batch).sum().backward()
        assert all(parameter.grad is not None for parameter in model.parameters())
        return
    inputs, outputs = (
        next(group.size for group in batch.graphs[0].groups if group.kind == kind)
        for kind in ("input", "output")
    )
    least = nn.Linear(inputs, outputs)
    model(gmn.collate([(gmn.trace(least, torch.zeros(1, inputs)), least.state_dict())])).sum().backward()
    assert [name for name, parameter in model.named_parameters() if parameter.grad is None] == []


@pytest.mark.parametrize("name", METHODS)
def test_the_width_of_the_output_is_the_task_s(name: str, batch: gmn.Batch) -> None:
    if not METHODS[name].by_gradient:
        with pytest.raises(TaskError, match="predicts one number per network"):
            METHODS[name].make("small", Output(width=3))
        return
    model = made(name, "small", batch, width=3)
    as_metanetwork(model).fit([batch])
    assert model(batch).shape == (len(batch), 3)


def test_names_and_titles_are_unique() -> None:
    assert list(METHODS) == [method.name for method in METHODS.values()]
    assert max(Counter(method.title for method in METHODS.values()).values()) == 1


def test_levels_and_sizes_that_are_not_there() -> None:
    with pytest.raises(TaskError, match="dmc gives one result per graph, and this task needs one per edge"):
        METHODS["dmc"].make("small", Output(level="edge"))
    with pytest.raises(TaskError, match="dmc has no size 'huge'; choose from paper, small"):
        METHODS["dmc"].make("huge")
    with pytest.raises(TaskError, match="there is no method 'gnn'; choose from gmn, gmn-probes"):
        find_method("gnn")
