"""Metanetworks on a network and on the same network with its neurons permuted."""

from functools import cache

import torch
from torch import Tensor, nn

import graph_metanetworks as gmn
from support.traced import traced

NAMES = [
    "mlp-relu",
    "cnn-2d-batch-norm",
    "attention-packed-qkv",
    "lstm",
    "resnet-basic-identity",
    "deep-sets",
]


@cache
def weights(name: str) -> dict[str, Tensor]:
    return {key: value.detach() for key, value in traced(name).model.state_dict().items()}


def one(name: str, state_dict: dict[str, Tensor] | None = None) -> gmn.Batch:
    """A batch of one network of the menagerie, in float64."""
    return gmn.collate([(traced(name).graph, state_dict or weights(name))]).to(torch.float64)


def many(names: list[str]) -> gmn.Batch:
    return gmn.collate([(traced(name).graph, weights(name)) for name in names]).to(torch.float64)


def assert_equivariant(net: gmn.GraphMetanetwork, name: str) -> None:
    gmn.testing.assert_equivariant(net, traced(name).graph, traced(name).model, samples=1)


def assert_sensitive(net: gmn.GraphMetanetwork) -> None:
    """Permuting one weight without its neighbours makes another network, and another result."""
    torn = weights("mlp-relu") | {"0.weight": weights("mlp-relu")["0.weight"].flip(0)}
    with torch.no_grad():
        assert not torch.allclose(net(one("mlp-relu", torn)), net(one("mlp-relu")), rtol=1e-6, atol=0)


@torch.no_grad()
def assert_batch_independent(net: gmn.GraphMetanetwork) -> None:
    """The result for a network does not depend on the others of its batch."""
    names = ["mlp-relu", "lstm", "mlp-relu", "resnet-basic-identity"]
    alone = torch.cat([net(one(name)) for name in names])
    torch.testing.assert_close(net(many(names)), alone, rtol=1e-9, atol=1e-10)


def assert_all_learn(net: gmn.GraphMetanetwork) -> None:
    """Gradients reach every parameter of the blocks and the readout."""
    net(many(["lstm", "deep-sets", "siren"])).square().sum().backward()
    idle = [
        key
        for key, p in net.named_parameters()
        if "encoder" not in key and (p.grad is None or not p.grad.any())  # kinds that no network here has
    ]
    assert not idle, f"no gradient reaches {', '.join(idle)}"


def assert_gradients_correct(block: nn.Module, hidden: int) -> None:
    """Against finite differences, of the states and of the block's parameters."""
    graph = gmn.trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1)), torch.randn(1, 2))
    zeros = {p.name: torch.zeros(p.shape, dtype=torch.float64) for p in graph.parameters}
    links = gmn.nn.Links(gmn.collate([(graph, zeros)]))
    names, parameters = zip(*block.double().named_parameters(), strict=True)

    def run(nodes: Tensor, edges: Tensor, *values: Tensor) -> tuple[Tensor, Tensor]:
        state = gmn.nn.State(nodes, edges)
        done = torch.func.functional_call(block, dict(zip(names, values, strict=True)), (state, links))
        return done.nodes, done.edges

    states = [torch.randn(n, hidden, dtype=torch.float64) for n in (graph.num_nodes, graph.num_edges)]
    inputs = [value.detach().requires_grad_() for value in (*states, *parameters)]
    assert torch.autograd.gradcheck(run, inputs)
