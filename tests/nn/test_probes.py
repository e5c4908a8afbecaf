"""Probes: what networks make of inputs is invariant, and their activations are permuted like their nodes."""

import pickle

import pytest
import torch
from torch import Tensor, nn

import graph_metanetworks as gmn
from graph_metanetworks.nn import Probes, ProbeSignals
from support.composed import Composed
from support.tiny import mlp
from support.traced import one_of_each_family, sample, traced

# ------------------------------------------------------------------ invariance


def probes_like(graph: gmn.ParameterGraph, args: tuple, kwargs: dict, count: int = 3) -> Probes:
    """Random inputs of a network; integers as in the example."""
    assert graph.recording is not None
    examples = list(graph.recording.matched(args, kwargs).values())
    inputs = [
        torch.randn(count, *x.shape) if x.is_floating_point() else x.expand(count, *x.shape) for x in examples
    ]
    return Probes(count, [tuple(x.shape) for x in examples], inputs=inputs)


@one_of_each_family
def test_a_permutation_of_neurons_permutes_their_activations_only(name: str) -> None:
    case = traced(name)
    weights = {n: v.double() if v.is_floating_point() else v for n, v in case.model.state_dict().items()}
    automorphism = sample(case.graph)
    probes = probes_like(case.graph, case.args, case.kwargs)
    with torch.no_grad():
        before = probes(gmn.collate([(case.graph, weights)]))
        after = probes(gmn.collate([(case.graph, automorphism.apply(weights))]))
    scale = max(1.0, float(before.outputs.abs().max()))
    assert torch.allclose(before.outputs, after.outputs, atol=1e-9 * scale)
    assert torch.allclose(automorphism.apply_nodes(before.nodes), after.nodes, atol=1e-9 * scale)
    assert before.nodes[before.shown].abs().sum() > 0
    assert not before.nodes[~before.shown].any()


# ------------------------------------------------------------------ values


def image_network(width: int, *, norm: bool = False, classes: int = 5) -> nn.Module:
    layers = [nn.Conv2d(1, width, 3), nn.BatchNorm2d(width) if norm else nn.Identity(), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(4 * width, classes)).eval()


def batch_of(*models: nn.Module, shape: tuple[int, ...] = (1, 1, 6, 6)) -> gmn.Batch:
    """Networks with equal parameters share a graph, so they are stacked."""
    graphs: dict[tuple, gmn.ParameterGraph] = {}
    pairs = []
    for model in models:
        key = tuple((name, value.shape) for name, value in model.state_dict().items())
        graphs.setdefault(key, gmn.trace(model, torch.randn(shape)))
        pairs.append((graphs[key], model.state_dict()))
    return gmn.collate(pairs)


MIXED = [image_network(3), image_network(4, norm=True), image_network(3), image_network(5), image_network(3)]


def test_outputs_and_activations_are_those_of_the_networks() -> None:
    """In the order of the batch, whichever way networks are stacked."""
    batch, probes = batch_of(*MIXED), Probes(4, (1, 6, 6))
    assert len(batch.stacks) == 3
    signals = probes(batch)
    (x,) = probes.inputs
    with torch.no_grad():
        expected = torch.stack([model(x) for model in MIXED])
    assert signals.outputs.shape == (5, 4, 5)
    assert signals.nodes.shape == (batch.num_nodes, 8)
    assert torch.allclose(signals.outputs, expected, atol=1e-6)
    for model, graph, own in zip(MIXED, batch.graphs, batch.split_nodes(signals.nodes), strict=True):
        (channels,) = (group for group in graph.groups if group.kind == "channel")
        with torch.no_grad():
            hidden = model[:3](x).flatten(2)  # [probes, channels, places]
        assert torch.allclose(own[channels.nodes, :4], hidden.mean(2).T, atol=1e-6)
        assert torch.allclose(own[channels.nodes, 4:], hidden.std(2, correction=0).T, atol=1e-6)


def test_only_the_first_channel_is_run() -> None:
    model = mlp(3, 5, 2)
    graph, probes = gmn.trace(model, torch.randn(1, 3)), Probes(4, (3,))
    gradients = {name: torch.randn_like(value) for name, value in model.state_dict().items()}
    both = gmn.collate([(graph, [model.state_dict(), gradients])])
    one = gmn.collate([(graph, model.state_dict())])
    assert torch.equal(probes(both).outputs, probes(one).outputs)


def test_probes_and_weights_have_gradients() -> None:
    batch, probes = batch_of(*MIXED), Probes(4, (1, 6, 6))
    weights = [value.requires_grad_() for stack in batch.stacks for value in stack.weights.values()]
    signals = probes(batch)
    (signals.outputs.square().sum() + signals.nodes.square().sum()).backward()
    (x,) = probes.inputs
    assert x.grad is not None
    assert x.grad.isfinite().all()
    assert (x.grad.flatten(1).abs().sum(1) > 0).all()
    for value in weights:
        assert value.grad is not None
        assert value.grad.isfinite().all()


def test_several_inputs() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(2, 3), nn.Linear(4, 3)

        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return self.first(x) * self.second(y)

    model = Two()
    graph = gmn.trace(model, torch.randn(1, 2), torch.randn(1, 4))
    probes = Probes(6, [(2,), (4,)])
    outputs = probes(gmn.collate([(graph, model.state_dict())])).outputs[0]
    assert torch.allclose(outputs, model(*probes.inputs), atol=1e-6)


def test_token_ids_are_given_and_fixed() -> None:
    model = nn.Sequential(nn.Embedding(7, 4), nn.Flatten(), nn.Linear(12, 2))
    batch = gmn.collate([(gmn.trace(model, torch.zeros(1, 3, dtype=torch.int64)), model.state_dict())])
    ids = torch.randint(7, (5, 3))
    probes = Probes(5, (3,), inputs=ids)
    assert not list(probes.parameters())
    assert torch.allclose(probes(batch).outputs[0], model(ids), atol=1e-6)
    with pytest.raises(gmn.UnsupportedNetwork, match=r"network 0.*int64.*float32.*inputs=torch.randint"):
        Probes(5, (3,))(batch)


# ------------------------------------------------------------------ modules


def test_saved_and_loaded() -> None:
    batch, probes = batch_of(*MIXED), Probes(4, (1, 6, 6))
    other = Probes(4, (1, 6, 6))
    assert not torch.equal(other(batch).outputs, probes(batch).outputs)
    other.load_state_dict(probes.state_dict())
    assert torch.equal(other(batch).outputs, probes(batch).outputs)
    again = pickle.loads(pickle.dumps(probes))
    assert torch.equal(again(pickle.loads(pickle.dumps(batch))).outputs, probes(batch).outputs)


def test_given_and_fixed_probes() -> None:
    x = torch.randn(4, 1, 6, 6)
    learned, fixed = Probes(4, (1, 6, 6), inputs=x), Probes(4, (1, 6, 6), inputs=x, learned=False)
    assert len(list(learned.parameters())) == 1
    assert not list(fixed.parameters())
    for probes in (learned, fixed):
        assert torch.equal(probes.inputs[0], x)
        assert probes.inputs[0] is not x


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_networks_run_in_their_own_precision(dtype: torch.dtype) -> None:
    batch, probes = batch_of(*MIXED), Probes(4, (1, 6, 6))
    expected = probes(batch)
    with torch.no_grad():
        found = probes(batch.to(dtype))
    assert found.outputs.dtype == found.nodes.dtype == dtype
    assert torch.allclose(found.outputs.float(), expected.outputs, atol=0.05)


def test_autocast_does_not_reach_the_networks() -> None:
    batch, probes = batch_of(*MIXED), Probes(4, (1, 6, 6))
    expected: ProbeSignals = probes(batch)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(probes(batch).outputs, expected.outputs)


# ------------------------------------------------------------------ errors


def test_networks_of_another_shape_of_input() -> None:
    batch, probes = batch_of(*MIXED, shape=(2, 1, 6, 6)), Probes(4, (1, 8, 8))
    with pytest.raises(gmn.UnsupportedNetwork, match=r"network 0.*\(2, 1, 6, 6\).*\(1, 8, 8\).*one zoo"):
        probes(batch)
    with pytest.raises(gmn.UnsupportedNetwork, match=r"takes 1 tensor.*probes for 2"):
        Probes(4, [(1, 6, 6), (3,)])(batch)


def test_networks_with_other_numbers_of_outputs() -> None:
    batch = batch_of(image_network(3), image_network(3, classes=7))
    with pytest.raises(gmn.UnsupportedNetwork, match=r"network 1.*7 outputs.*network 0.*has 5"):
        Probes(4, (1, 6, 6))(batch)


def test_networks_that_cannot_be_run_again() -> None:
    model = Composed(lambda x, layer: layer(x + torch.randn(1, 3)), nn.Linear(3, 2))
    batch = gmn.collate([(gmn.trace(model, torch.randn(1, 3)), model.state_dict())])
    with pytest.raises(gmn.UnsupportedNetwork, match=r"network 0.*randn.*random.*with_module"):
        Probes(4, (3,))(batch)


def test_a_module_runs_where_its_operations_cannot() -> None:
    model = Composed(lambda x, layer: layer(torch.tensor(x.tolist())), nn.Linear(3, 2))
    graph = gmn.trace(model, torch.randn(1, 3)).with_module(model)
    probes = Probes(4, (3,), learned=False)
    signals = probes(gmn.collate([(graph, model.state_dict())] * 2))
    assert torch.allclose(signals.outputs[1], model(probes.inputs[0]), atol=1e-6)
    assert not signals.shown.any()


@pytest.mark.parametrize("shape", [(3, 2), [(2,), 3]])
def test_wrong_shapes_of_probes(shape: list) -> None:
    with pytest.raises(ValueError, match=r"count, \*shape|mixes"):
        Probes(4, shape, inputs=torch.randn(4, 3))
