"""The norm of edge states: its derivatives are written by hand."""

from __future__ import annotations

import pytest
import torch

from graph_metanetworks.nn.norm import EPS, normed


@pytest.fixture
def edges() -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(2, 3, 5, generator=generator, dtype=torch.float64, requires_grad=True)


def plain(edges: torch.Tensor) -> torch.Tensor:
    return edges / (edges.square().mean(-1, keepdim=True) + EPS).sqrt()


def test_values(edges):
    torch.testing.assert_close(normed(edges), plain(edges))
    torch.testing.assert_close(normed(edges.detach()), plain(edges.detach()))


def test_derivatives(edges):
    assert torch.autograd.gradcheck(normed, edges, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(normed, edges)


def test_torch_func(edges):
    start, direction = edges.detach(), torch.ones_like(edges)
    along, expected = (torch.func.jvp(function, (start,), (direction,))[1] for function in (normed, plain))
    torch.testing.assert_close(along, expected)
    each = torch.func.vmap(torch.func.grad(lambda x: normed(x).pow(3).sum()))(start)
    torch.testing.assert_close(each, torch.func.grad(lambda x: plain(x).pow(3).sum())(start))
