"""Linear layers on states: the MLP of blocks and readouts, and matrix products over many edges."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class Mlp(nn.Module):
    """Two linear layers with a ReLU between them.

    Initial weights (He et al., 2015) keep the scale of inputs. With torch's default initialization results
    have a quarter of it: updates then hardly change a state, and training is slow.

    Args:
        bias: whether the second layer has a bias.
        gain: initial scale of the results, relative to the inputs.
    """

    def __init__(
        self, inputs: int, inner: int, outputs: int, *, bias: bool = True, gain: float = 1.0
    ) -> None:
        super().__init__()
        self.first = nn.Linear(inputs, inner)
        self.second = nn.Linear(inner, outputs, bias=bias)
        nn.init.normal_(self.first.weight, std=(2 / inputs) ** 0.5)
        nn.init.normal_(self.second.weight, std=gain * (1 / inner) ** 0.5)
        nn.init.zeros_(self.first.bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x).relu())


def signed_log(x: Tensor) -> Tensor:
    """Squash large values: the sign times log(1 + |x|)."""
    return _SignedLog.apply(x)


class _SignedLog(torch.autograd.Function):
    """`signed_log` with its derivative by hand, 1 / (1 + |x|): autograd takes three times as many passes."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x.abs().log1p_().copysign_(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (grad,), (x,) = grads, ctx.saved_tensors
        return grad / (1 + x.abs())

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor) -> Tensor:
        (tangent,), (x,) = tangents, ctx.saved_tensors
        return tangent / (1 + x.abs())


def sine_and_cosine(angle: Tensor) -> Tensor:
    """Return sines, then cosines. [n, d] -> [n, 2 d]"""
    return _SineAndCosine.apply(angle)


class _SineAndCosine(torch.autograd.Function):
    """Each is the derivative of the other, up to a sign, so the backward pass computes neither again."""

    generate_vmap_rule = True

    @staticmethod
    def forward(angle: Tensor) -> Tensor:
        return torch.cat([angle.sin(), angle.cos()], dim=-1)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(output)
        ctx.save_for_forward(output)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (to_sine, to_cosine), (sine, cosine) = (own.chunk(2, dim=-1) for own in (*grads, *ctx.saved_tensors))
        return torch.addcmul(to_sine * cosine, to_cosine, sine, value=-1)

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor) -> Tensor:
        (tangent,), (sine, cosine) = tangents, ctx.saved_tensors[0].chunk(2, dim=-1)
        return torch.cat([tangent * cosine, -tangent * sine], dim=-1)


def product(edges: Tensor, weight: Tensor, out: Tensor | None = None) -> Tensor:
    """Apply a linear layer to states of any shape as one flat product; torch may choose a slower batched one.

    The result is a view. Do not modify it in place where gradients are recorded: that is slow.
    """
    flat = None if out is None else out.flatten(0, -2)
    return torch.mm(edges.flatten(0, -2), weight.t(), out=flat).view(*edges.shape[:-1], -1)


def add_product(states: Tensor, edges: Tensor, weight: Tensor, out: Tensor | None = None) -> Tensor:
    """Add a linear layer on `edges` to `states`; `out` may be `states` itself."""
    if out is None:
        return states + product(edges, weight)
    torch.addmm(states.flatten(0, -2), edges.flatten(0, -2), weight.t(), out=out.flatten(0, -2))
    return out
