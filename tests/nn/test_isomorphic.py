"""Networks that are equal but differently written give equal results."""

import pytest
import torch
from torch import nn

import graph_metanetworks as gmn
from support.written import Attention, Mlp, Residual, graph_of


@pytest.fixture(params=["edges", "nodes", "attention", "matrix-product", "bundles"])
def net(request) -> gmn.GraphMetanetwork:
    if request.param in ("matrix-product", "bundles"):
        return gmn.GraphMetanetwork(16, 3, 4, blocks=request.param).double()
    return gmn.GraphMetanetwork(16, 3, 4, readout=request.param).double()


@torch.no_grad()
def assert_equal_results(net: gmn.GraphMetanetwork, *models: nn.Module) -> None:
    results = net(gmn.collate([(graph_of(model), model.state_dict()) for model in models]))
    torch.testing.assert_close(results, results[:1].expand_as(results), rtol=1e-11, atol=1e-12)


def test_linear_maps(net):
    ways = ["linear", "matmul", "bias first", "einsum", "addmm", "bmm", "columns"]
    assert_equal_results(net, *(Mlp(way) for way in ways))


def test_attention(net):
    assert_equal_results(net, *(Attention(way) for way in ("fused", "products", "scaled first", "einsum")))


def test_sums(net):
    assert_equal_results(net, Residual("x + f(x)"), Residual("f(x) + x"))


class Renamed(Mlp):
    """Other names, registered in another order."""

    def __init__(self) -> None:
        super().__init__()
        values = dict(self.named_parameters())
        for name in values:
            delattr(self, name)
        self.zeta, self.alpha, self.y, self.x = values["d"], values["c"], values["b"], values["a"]

    def forward(self, x):
        return self.linear(self.linear(x, self.x, self.y).relu(), self.alpha, self.zeta)


@torch.no_grad()
def test_names_and_the_order_of_registration(net):
    plain, renamed = Mlp(), Renamed()
    assert list(renamed.state_dict()) == ["zeta", "alpha", "y", "x"]
    graph = gmn.trace(renamed, torch.zeros(4, 3, dtype=torch.float64))
    results = net(gmn.collate([(graph_of(plain), plain.state_dict()), (graph, renamed.state_dict())]))
    torch.testing.assert_close(results[0], results[1], rtol=1e-11, atol=1e-12)


@torch.no_grad()
def test_modules_in_other_modules(net):
    plain = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2)).double()
    nested = nn.ModuleDict({"z": plain[0], "a": nn.Sequential(plain[1], nn.Sequential(plain[2]))})
    nested.forward = lambda x: nested["a"](nested["z"](x))
    batch = [(gmn.trace(m, torch.zeros(1, 3).double()), m.state_dict()) for m in (plain, nested)]
    results = net(gmn.collate(batch))
    torch.testing.assert_close(results[0], results[1], rtol=1e-11, atol=1e-12)
