"""Gradients are right, reach everything, and are the same every time."""

import pytest
import torch
from torch import nn
from torch.func import functional_call

import graph_metanetworks as gmn
from support.permuted import many

LEVELS = [("graph", name) for name in ("edges", "kinds", "tensors", "nodes", "attention")]
LEVELS += [("node", "each"), ("edge", "each"), ("edge", "ends"), ("edge", "edit")]
leveled = pytest.mark.parametrize(("level", "readout"), LEVELS)


@leveled
@pytest.mark.parametrize("engine", ["blocks", "stream"])
def test_against_finite_differences(level, readout, engine):
    model = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 1)).double()
    graph = gmn.trace(model, torch.zeros(1, 2).double())
    small = gmn.nn.Vocabulary(graph.node_kinds, graph.edge_kinds, graph.activations)
    options = {} if readout in ("kinds", "edit") else {"vocabulary": small}
    net = gmn.GraphMetanetwork(
        4, 2, 1, level=level, readout=readout, global_feature=True, fourier=1, engine=engine, **options
    ).double()
    names = [p.name for p in graph.parameters]
    chosen = [key for key in dict(net.named_parameters()) if "kind" not in key and "gamma" not in key]

    def run(*values):
        state = dict(zip(names, values, strict=False))
        own = dict(zip(chosen, values[len(names) :], strict=True))
        return functional_call(net, own, (gmn.collate([(graph, state)]),))

    inputs = [model.state_dict()[name] for name in names] + [net.get_parameter(key) for key in chosen]
    shapes = [value.shape for value in inputs]
    flat = torch.cat([value.detach().flatten() for value in inputs]).requires_grad_()

    def run_flat(vector):
        parts = vector.split([shape.numel() for shape in shapes])
        return run(*(part.view(shape) for part, shape in zip(parts, shapes, strict=True)))

    # the derivative in a random direction of all inputs at once, so that two evaluations are enough
    assert torch.autograd.gradcheck(run_flat, flat, fast_mode=True, rtol=1e-6, atol=1e-8)


@leveled
@pytest.mark.parametrize("engine", ["blocks", "stream", "edge_list"])
def test_gradients_reach_every_parameter(level, readout, engine):
    net = gmn.GraphMetanetwork(
        16, 3, level=level, readout=readout, global_feature=True, fourier=1, engine=engine
    ).double()
    batch = many(["mlp-relu", "transformer-encoder", "cnn-2d-batch-norm", "lstm"])
    net(batch).square().sum().backward()
    idle = [name for name, p in net.named_parameters() if p.grad is None or not p.grad.any()]
    assert not idle
    rows = [net.edge_encoder.vocabulary.edge_kinds.index(k) for g in batch.graphs for k in g.edge_kinds]
    assert net.edge_encoder.kind.weight.grad[sorted(set(rows))].any(1).all()


@pytest.mark.parametrize("engine", ["blocks", "stream", "edge_list"])
def test_the_same_under_a_seed(engine):
    batch = many(["mlp-relu", "lstm", "mlp-relu"])

    def trained() -> list[torch.Tensor]:
        torch.manual_seed(3)
        net = gmn.GraphMetanetwork(16, 2, engine=engine).double()
        optimiser = torch.optim.Adam(net.parameters())
        for _ in range(3):
            optimiser.zero_grad()
            net(batch).square().sum().backward()
            optimiser.step()
        return [p.detach() for p in net.parameters()]

    assert all(torch.equal(a, b) for a, b in zip(trained(), trained(), strict=True))
