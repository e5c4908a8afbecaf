"""The norm of edge states, in two parts: a factor for each edge, and a scale that weights can absorb."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from graph_metanetworks.nn.engine.scratch import scratch_buffer

EPS = 1e-6


class RmsNorm(nn.Module):
    """Divide states by their root mean square and multiply them by a learned scale.

    On the CPU it is several times as fast as a LayerNorm of this width. Unlike `nn.RMSNorm`, it takes states
    in half precision with a scale in float32, as autocast makes them.
    """

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden))

    def forward(self, edges: Tensor) -> Tensor:
        return normed(edges) * self.weight


def normed(edges: Tensor) -> Tensor:
    """Divide states by their root mean square: the norm before its scale. [..., hidden]"""
    return _Normed.apply(edges)[0] if edges.requires_grad and torch.is_grad_enabled() else _normed(edges)[0]


def _normed(edges: Tensor) -> tuple[Tensor, Tensor]:
    """Return normed states and the factor of each edge, `[..., 1]`."""
    out = scratch_buffer("normed", edges, edges.shape[-1])
    factor = _mean(torch.mul(edges, edges, out=out), scratch_buffer("factor", edges, 1)).add_(EPS).rsqrt_()
    return torch.mul(edges, factor, out=out), factor


def _mean(numbers: Tensor, out: Tensor | None = None) -> Tensor:  # [..., width] -> [..., 1]
    """Return the mean of each row. For short rows a product takes a third of the time of a reduction."""
    width = numbers.shape[-1]
    flat = None if out is None else out.flatten()
    mean = torch.mv(numbers.flatten(0, -2), numbers.new_full((width,), 1 / width), out=flat)
    return mean.view(*numbers.shape[:-1], 1)


class _Normed(torch.autograd.Function):
    """`normed` with derivatives by hand: those of autograd take three times as many passes over memory."""

    generate_vmap_rule = True

    @staticmethod
    def forward(edges: Tensor) -> tuple[Tensor, Tensor]:
        return _normed(edges)

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor], output: tuple[Tensor, Tensor]) -> None:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*output)
        ctx.save_for_forward(*output)

    @staticmethod
    def backward(ctx, *grads: Tensor | None) -> Tensor | None:
        (to_result, to_factor), (result, factor) = grads, ctx.saved_tensors
        grad = None if to_result is None else _derivative(to_result, result, factor)
        if to_factor is None:  # only second derivatives need it
            return grad
        through_factor = -to_factor * factor.square() * result / result.shape[-1]
        return through_factor if grad is None else grad + through_factor

    @staticmethod
    def jvp(ctx, *tangents: Tensor) -> tuple[Tensor, Tensor]:
        (along,), (result, factor) = tangents, ctx.saved_tensors
        return _derivative(along, result, factor), -factor.square() * _mean(along * result)


def _derivative(along: Tensor, result: Tensor, factor: Tensor) -> Tensor:
    """Return the Jacobian-vector product. The Jacobian is symmetric."""
    return torch.addcmul(along, result, _mean(along * result), value=-1) * factor
