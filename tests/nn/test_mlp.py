"""Functions whose derivatives are written by hand: `signed_log` and `sine_and_cosine`."""

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck
from torch.func import jvp, vmap

from graph_metanetworks.nn.mlp import signed_log, sine_and_cosine

POINTS = torch.tensor([-30.0, -1.0, -0.1, 0.2, 3.0], dtype=torch.float64)
WRITTEN_OUT = {
    signed_log: lambda x: x.sign() * x.abs().log1p(),
    sine_and_cosine: lambda x: torch.cat([x.sin(), x.cos()], dim=-1),
}
by_hand = pytest.mark.parametrize("function", WRITTEN_OUT, ids=lambda function: function.__name__)


@by_hand
def test_values(function):
    torch.testing.assert_close(function(POINTS), WRITTEN_OUT[function](POINTS), rtol=1e-15, atol=0)


def test_zero_stays_zero():
    assert signed_log(torch.zeros(1)).item() == 0


@by_hand
def test_derivatives(function):
    x = POINTS.clone().requires_grad_()
    assert gradcheck(function, x, check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(function, x)


@by_hand
def test_under_vmap(function):
    points, tangent = POINTS[:, None], torch.ones(len(POINTS), 1, dtype=torch.float64)
    _, ours = vmap(lambda x, t: jvp(function, (x,), (t,)))(points, tangent)
    _, theirs = vmap(lambda x, t: jvp(WRITTEN_OUT[function], (x,), (t,)))(points, tangent)
    torch.testing.assert_close(ours, theirs)
