"""Metanetworks in the modes of PyTorch: compiled, in bfloat16, functional, distributed, pickled."""

import copy
import pickle
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, jacrev, vmap
from torch.utils.data import DataLoader

import graph_metanetworks as gmn
from graph_metanetworks.nn import execution
from support.distributed import share, step
from support.permuted import many, weights
from support.processes import spawn
from support.traced import traced

ENGINES = ["blocks", "stream", "edge_list"]
NAMES = ["mlp-relu", "lstm", "mlp-relu"]


def batch() -> gmn.Batch:
    return many(NAMES).to(torch.float32)


# ------------------------------------------------------------------ compiled


slow = pytest.mark.slow
SMALL, MIXED = ["mlp-relu"], ["mlp-relu", "cnn-2d-batch-norm"]  # each kind of block takes seconds to compile
COMPILED = [
    pytest.param("blocks", "eager", SMALL, id="blocks"),
    pytest.param("blocks", "aot_eager", SMALL, marks=slow, id="blocks-aot"),
    pytest.param("blocks", "aot_eager", MIXED, marks=slow, id="blocks-mixed"),
    pytest.param("stream", "aot_eager", MIXED, marks=slow, id="stream-mixed"),
    pytest.param("edge_list", "eager", MIXED, marks=slow, id="edge_list-mixed"),
]


@pytest.mark.parametrize(("engine", "backend", "names"), COMPILED)
@pytest.mark.filterwarnings("ignore")  # of the compiler, about graph breaks
def test_compiled(engine, backend, names):
    torch.compiler.reset()
    net = gmn.GraphMetanetwork(16, 1, engine=engine)
    networks = many(names).to(torch.float32)
    expected = net(networks)
    expected.sum().backward()
    grads = [p.grad for p in net.parameters()]
    net.zero_grad()
    found = torch.compile(net, backend=backend)(networks)
    found.sum().backward()
    torch.testing.assert_close(found, expected)
    for p, grad_before in zip(net.parameters(), grads, strict=True):
        torch.testing.assert_close(p.grad, grad_before, rtol=1e-4, atol=1e-5)


# ------------------------------------------------------------------ bfloat16


READOUTS = [("graph", "edges"), ("graph", "attention"), ("edge", "edit")]
AUTOCAST = [  # every engine with every readout, once; further combinations are slow
    pytest.param(engine, *readout, aggregation, pieces, marks=() if (k, m) == ((i + j) % 2, j % 2) else slow)
    for i, engine in enumerate(ENGINES)
    for j, readout in enumerate(READOUTS)
    for k, aggregation in enumerate(("mean", "max"))
    for m, pieces in enumerate((True, False))
]


@pytest.mark.parametrize(("engine", "level", "readout", "aggregation", "pieces"), AUTOCAST)
def test_autocast(engine, level, readout, aggregation, pieces, monkeypatch):
    if pieces:
        small = replace(execution.BLOCKS, list_below=1, whole_panels_below=0, piece_size=800)
        monkeypatch.setattr(execution, "BLOCKS", small)
    options = {"level": level, "readout": readout, "aggregation": aggregation, "global_feature": True}
    net = gmn.GraphMetanetwork(16, 2, engine=engine, **options)
    expected = net(batch()).detach()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = net(batch())
    found.float().square().sum().backward()
    assert (found.float() - expected).abs().max() < 0.1 * expected.abs().max().clamp(min=0.1)
    assert all(p.grad is not None and p.grad.isfinite().all() for p in net.parameters())


@pytest.mark.parametrize("blocks", ["message-passing", "matrix-product", "bundles"])
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("level", ["graph", pytest.param("node", marks=slow), "edge"])
@pytest.mark.parametrize("mode", ["autocast", "bfloat16"])
def test_half_precision(blocks, engine, level, mode):
    networks = many(["mlp-relu", "cnn-2d-batch-norm"]).to(torch.float32)
    net = gmn.GraphMetanetwork(16, 2, blocks=blocks, engine=engine, level=level)
    net.fit([networks])
    expected = net(networks).detach()
    if mode == "bfloat16":
        net.bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=mode == "autocast"):
        found = net(networks)
    found.float().square().sum().backward()
    wrong, size = (found.float() - expected).abs().flatten(), expected.abs().max().clamp(min=0.1)
    # weights near zero count by their logarithm, of which few bits are left: a few edges differ more
    assert wrong.quantile(0.99) < 0.05 * size and wrong.max() < 0.3 * size
    assert all(p.grad is None or p.grad.isfinite().all() for p in net.parameters())


# ------------------------------------------------------------------ functional


def functional() -> tuple:
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)).double()
    graph = gmn.trace(model, torch.zeros(1, 2).double())
    net = gmn.GraphMetanetwork(8, 2).double()

    def result(own, state):
        return functional_call(net, own, (gmn.collate([(graph, state)], allow_nonfinite=True),))[0, 0]

    own = {name: p.detach() for name, p in net.named_parameters()}
    state = {name: value.detach() for name, value in model.state_dict().items()}
    return net, graph, result, own, state


def test_functional_gradients():
    net, graph, result, own, state = functional()
    net(gmn.collate([(graph, state)])).sum().backward()
    found = grad(result)(own, state)
    for name, p in net.named_parameters():
        torch.testing.assert_close(found[name], p.grad)
    leaves = {name: value.clone().requires_grad_() for name, value in state.items()}
    net(gmn.collate([(graph, leaves)])).sum().backward()
    for name, value in jacrev(result, argnums=1)(own, state).items():
        torch.testing.assert_close(value, leaves[name].grad)


def test_vmap_over_weights():
    _, _, result, own, state = functional()
    many = {name: torch.stack([value, -value, 2 * value]) for name, value in state.items()}
    found = vmap(partial(result, own))(many)
    singly = [result(own, {name: value[i] for name, value in many.items()}) for i in range(3)]
    torch.testing.assert_close(found, torch.stack(singly))


# ------------------------------------------------------------------ distributed


def test_distributed_gradients(tmp_path):
    net, own = share(0, 1)
    net(own).square().mean().backward()
    spawn(step, (str(tmp_path), 2), 2)
    for rank in range(2):
        found = torch.load(tmp_path / f"{rank}.pt")
        for ours, parameter in zip(found, net.parameters(), strict=True):
            torch.testing.assert_close(ours, parameter.grad)


# ------------------------------------------------------------------ copied


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))], ids=["copy", "pickle"]
)
@torch.no_grad()
def test_copies(copied):
    net = gmn.GraphMetanetwork(16, 2, level="edge", readout="edit")
    expected = net(batch())
    assert torch.equal(copied(net)(copied(batch())), expected)


def test_a_loader_with_workers():
    graph = traced("mlp-relu").graph
    data = [(graph, {k: i * v for k, v in weights("mlp-relu").items()}) for i in range(1, 7)]
    net = gmn.GraphMetanetwork(16, 2)
    with torch.no_grad():
        found = [net(own) for own in DataLoader(data, 3, collate_fn=gmn.collate, num_workers=2)]
        torch.testing.assert_close(torch.cat(found), net(gmn.collate(data)))
