"""The derivatives of `signed_log`, which are written by hand."""

import torch
from torch.autograd import gradcheck, gradgradcheck
from torch.func import jvp, vmap

from graph_metanetworks.nn.mlp import signed_log

POINTS = torch.tensor([-30.0, -1.0, -0.1, 0.2, 3.0], dtype=torch.float64)


def written_out(x: torch.Tensor) -> torch.Tensor:
    return x.sign() * x.abs().log1p()


def test_values():
    torch.testing.assert_close(signed_log(POINTS), written_out(POINTS), rtol=1e-15, atol=0)
    assert signed_log(torch.zeros(1)).item() == 0


def test_derivatives():
    x = POINTS.clone().requires_grad_()
    assert gradcheck(signed_log, x, check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(signed_log, x)


def test_under_vmap():
    tangent = torch.ones_like(POINTS)
    _, ours = vmap(lambda x, t: jvp(signed_log, (x,), (t,)))(POINTS, tangent)
    _, theirs = jvp(written_out, (POINTS,), (tangent,))
    torch.testing.assert_close(ours, theirs)
