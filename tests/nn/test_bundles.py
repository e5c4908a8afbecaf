"""Bundles: parallel edges share a state, whatever their number; scales; unary parameters; saving."""

import pytest
import torch
from torch import nn

import graph_metanetworks as gmn
from graph_metanetworks.nn.bundles import KeptBundles
from support.permuted import assert_all_learn, assert_batch_independent, assert_sensitive, many


def metanetwork(**options) -> gmn.GraphMetanetwork:
    torch.manual_seed(0)
    return gmn.GraphMetanetwork(16, 3, 2, blocks="bundles", **options).double()


def batch_of(model: nn.Module, *example: int) -> gmn.Batch:
    graph = gmn.trace(model, torch.zeros(1, *example))
    return gmn.collate([(graph, model.state_dict())]).to(torch.float64)


def bundles_of(batch: gmn.Batch, engine: str = "blocks") -> KeptBundles:
    torch.manual_seed(0)
    found = gmn.nn.BundleEncoder(8, gmn.nn.Vocabulary()).double()(batch, engine)
    assert isinstance(found, KeptBundles)
    return found


@pytest.mark.parametrize("engine", ["blocks", "edge_list"])
def test_one_state_for_each_pair_of_neurons(engine):
    model = nn.Sequential(nn.Conv2d(3, 5, 3), nn.Flatten(), nn.Linear(5 * 4, 7))
    found = bundles_of(batch_of(model, 3, 4, 4), engine)
    assert sum(states.shape[:-1].numel() for states in found.states) == 5 * 3 + 7 * 5
    joined = {(int(s), int(t)) for ends in found.ends for s, t in zip(*ends.listed(), strict=True)}
    assert len(joined) == 5 * 3 + 7 * 5


def test_incoming_and_outgoing_bundles_are_counted_apart():
    found = bundles_of(batch_of(nn.Sequential(nn.Conv2d(3, 5, 3), nn.Conv2d(5, 2, 1)), 3, 4, 4))
    incoming, outgoing = (counts.flatten()[found.target.unique()].tolist() for counts in found.degree)
    assert sorted(incoming) == [3] * 5 + [5] * 2
    assert sorted(outgoing) == [1] * 2 + [2] * 5  # outputs have none, and count as 1


def test_messages_are_means():
    """Without a bias, messages of equal bundles from equal nodes do not depend on the number of nodes."""
    block = gmn.nn.BundlePassing(8).double()
    results = []
    for width in (2, 50):
        model = nn.Linear(width, 3, bias=False)
        nn.init.constant_(model.weight, width**-0.5)  # equal at the scale of the fan-in
        bundles = bundles_of(batch_of(model, width))
        nodes = torch.ones(bundles.num_nodes, 8, dtype=torch.float64).cumsum(1)
        results.append(block(nodes, bundles)[-1])  # an output
    torch.testing.assert_close(*results)


def test_sizes_do_not_depend_on_the_width_of_networks():
    torch.manual_seed(0)
    states = {}
    for width in (20, 500):
        batch = batch_of(nn.Linear(width, 200, bias=False), width)
        states[width] = bundles_of(batch).states[0]
    scales = [own.flatten(0, 2).std(0) for own in states.values()]
    assert ((scales[0] / scales[1]).log().abs() < 0.1).all()


def test_properties():
    for level in ("graph", "node", "edge"):
        assert_sensitive(metanetwork(level=level))
        assert_batch_independent(metanetwork(level=level))


@pytest.mark.parametrize("level", ["graph", "node"])
def test_all_learn(level):
    net = metanetwork(level=level)
    net(many(["cnn-2d-batch-norm"])).square().sum().backward()
    assert net.matrices is not None
    grads = [parameter.grad for parameter in net.matrices.parameters()]
    assert all(grad is not None and bool(grad.any()) for grad in grads)
    assert_all_learn(metanetwork(level=level))


def test_unary_parameters_are_seen():
    model = nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(3, 2)).eval()
    graph, state, net = gmn.trace(model, torch.zeros(1, 1, 3, 3)), model.state_dict(), metanetwork()
    for name in ("0.bias", "1.weight", "1.bias", "1.running_mean", "1.running_var", "3.bias"):
        pair = [(graph, state), (graph, state | {name: state[name] + 0.1})]
        first, second = net(gmn.collate(pair).to(torch.float64))
        assert (first - second).abs().max() > 1e-5, name


def test_fitted_scales_are_saved(tmp_path):
    net = metanetwork()
    net.fit([many(["mlp-relu", "cnn-2d-batch-norm"])])
    assert net.matrices is not None and bool((net.matrices.size != 1).any())
    again = gmn.GraphMetanetwork.from_pretrained(net.save_pretrained(tmp_path))
    batch = many(["mlp-relu", "lstm"])
    assert torch.equal(again(batch), net(batch))


@pytest.mark.parametrize("level", ["graph", "edge"])
def test_networks_with_one_output(level):
    """Their last bias is a block without dimensions."""
    batch = batch_of(nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1)), 2)
    net = metanetwork(level=level)
    net.fit([batch])
    assert net(batch).isfinite().all()


def test_several_channels():
    model = nn.Conv2d(2, 3, 3)
    graph, state = gmn.trace(model, torch.zeros(1, 2, 4, 4)), model.state_dict()
    gradients = {name: torch.randn_like(value) for name, value in state.items()}
    batch = gmn.collate([(graph, [state, gradients])]).to(torch.float64)
    net = metanetwork(channels=2)
    net.fit([batch])
    results = [net(batch, engine) for engine in ("blocks", "stream", "edge_list")]
    torch.testing.assert_close(results[0], results[1])
    torch.testing.assert_close(results[0], results[2])


def test_stream_keeps_no_states():
    """Neither states of bundles nor messages are saved for the backward pass."""
    batch, net = batch_of(nn.Linear(300, 200), 300), metanetwork()
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t.numel()) or t, lambda t: t):
        net(batch, "stream")
    assert max(saved) <= 300 * 200  # the weights themselves, 16 times smaller than the states
