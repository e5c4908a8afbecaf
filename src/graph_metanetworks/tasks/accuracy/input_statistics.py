r"""What batch norms tell of the data: the covariance of the inputs.

A batch norm after the first layer stores the variance of each channel, which is :math:`w^\top \Sigma w` for a
channel with weights :math:`w` and inputs (or patches of them) with covariance :math:`\Sigma`. Training
networks agree on :math:`\Sigma` to half a percent, whatever their accuracy; those trained on other data have
another.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

import torch
from torch import Tensor, nn

from graph_metanetworks.graph.batch import Batch, Stack
from graph_metanetworks.nn.fitted import Fitted, resize_buffers

VARIANCE = "batch norm variance"
LARGEST = 64  # weights of a channel: a covariance has half the square of it
ROUNDS = 10  # of reweighted least squares
QUARTILE = 0.25  # of the channels: those of networks with high learning rates lag behind their weights
TINY, SMALLEST = 1e-12, 1e-3


class InputStatistics(Fitted):
    """Compare the batch norms after the first layer with the covariance that training networks agree on."""

    def __init__(self) -> None:
        super().__init__()
        self.moments = nn.Buffer(torch.zeros(0))  # upper triangles of all covariances
        resize_buffers(self, "moments")

    def make_tables(self) -> None:
        self.moments = nn.Buffer(self.moments.new_zeros(sum(map(_moments, self.fitted_names))))

    @torch.no_grad()
    def fit(self, batches: Iterable[Batch]) -> None:
        """Estimate a covariance for each shape of first layers."""
        found: dict[str, list[tuple[Tensor, Tensor]]] = {}
        for batch in batches:
            for stack in batch.stacks:
                for key, weights, variances in _first_layer(stack):
                    found.setdefault(key, []).append((_products(weights).flatten(0, 1), variances.flatten()))
        rows = {key: [torch.cat(part) for part in zip(*own, strict=True)] for key, own in found.items()}
        enough = {key: own for key, own in rows.items() if len(own[0]) >= 4 * own[0].shape[1]}
        self.set_fitted_names(enough)
        if enough:
            self.moments.copy_(torch.cat([_robust_fit(*own) for own in enough.values()]))

    @torch.no_grad()
    def forward(self, batch: Batch) -> Tensor:  # [B]
        """Return the logarithm of the relative error of the variances; -inf where nothing can be said."""
        result = self.moments.new_full((len(batch),), -torch.inf)
        sizes = [_moments(key) for key in self.fitted_names]
        known = dict(zip(self.fitted_names, self.moments.split(sizes), strict=True)) if sizes else {}
        for stack in batch.stacks:
            for key, weights, variances in _first_layer(stack):
                if key in known:
                    error = _error(_products(weights) @ known[key].double(), variances)
                    typical = error.quantile(QUARTILE, dim=1)
                    result[list(stack.members)] = (typical + SMALLEST).log().to(result)
        return result.float().to(result)  # rounded: the same for permuted networks


def _first_layer(stack: Stack) -> list[tuple[str, Tensor, Tensor]]:
    """Return key, weights `[networks, channels, weights]` and variances `[networks, channels]`, if any.

    A network whose channels get inputs from several tensors has none.
    """
    graph = stack.graph
    inputs = {number for number, kind in enumerate(graph.node_kinds) if kind == "input"}
    first = [
        number
        for number, block in enumerate(graph.blocks)
        if block.parameter is not None and set(graph.node_kind[block.source.reshape(-1)].tolist()) <= inputs
    ]
    if len(first) != 1:
        return []
    block = graph.blocks[first[0]]
    targets = block.target.reshape(-1)
    along = max(range(block.target.dim()), key=lambda dim: block.target.shape[dim])
    if len(targets) != block.shape[along] or prod(block.shape) > LARGEST * len(targets):
        return []
    for number, other in enumerate(graph.blocks):
        if other.kind == VARIANCE and torch.equal(other.target.reshape(-1), targets):
            weights = stack.block_values(first[0])[..., 0].double().movedim(1 + along, 1)
            shape = "x".join(str(size) for size in weights.shape[2:])
            variances = stack.block_values(number)[..., 0].double().flatten(1)
            return [(f"{block.kind} {shape}", weights.flatten(2), variances)]
    return []


def _moments(key: str) -> int:
    size = prod(int(part) for part in key.rsplit(" ", 1)[1].split("x"))
    return size * (size + 1) // 2


def _products(weights: Tensor) -> Tensor:  # [..., weights] -> [..., moments]
    """Return the products of all pairs of weights, those of different ones twice."""
    one, other = torch.triu_indices(weights.shape[-1], weights.shape[-1])
    return weights[..., one] * weights[..., other] * (2 - (one == other).to(weights))


def _error(expected: Tensor, variances: Tensor) -> Tensor:
    return (expected.clamp(min=TINY) / (variances + TINY)).log().abs()


def _robust_fit(products: Tensor, variances: Tensor) -> Tensor:  # [rows, moments], [rows] -> [moments]
    """Fit relative variances by reweighted least squares, so that diverged networks do not matter."""
    importance = 1 / (variances + TINY)
    moments = products.new_zeros(products.shape[1])
    for _ in range(ROUNDS):
        rows, wanted = products * importance[:, None], (variances * importance)[:, None]
        moments = torch.linalg.lstsq(rows, wanted, driver="gelsd").solution[:, 0]
        error = _error(products @ moments, variances)
        importance = 1 / (variances + TINY) / error.clamp(min=1e-2).sqrt()
    return moments
