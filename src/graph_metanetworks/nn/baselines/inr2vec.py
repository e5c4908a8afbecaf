"""The encoder of INR2Vec."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from graph_metanetworks.errors import UnsupportedNetwork
from graph_metanetworks.graph.batch import Batch, Stack
from graph_metanetworks.nn.baselines.chain import Chain, chain_of, join_stacks
from graph_metanetworks.nn.baselines.one_architecture import OneArchitecture, width_within
from graph_metanetworks.nn.mlp import Mlp


class Inr2Vec(OneArchitecture):
    """The encoder of INR2Vec, `De Luigi et al. <https://arxiv.org/abs/2302.05438>`_ (ICLR 2023).

    Weights and biases are stacked into a matrix whose rows have the width of the hidden layers. Each row goes
    through linear layers with batch norm and ReLU, then the maximum over rows is taken. The first matrix is
    transposed for this; the published encoder leaves out the first and the last layer. The order of rows is
    not seen, but that of columns is: it is not invariant to permuted neurons. It takes MLPs of one
    architecture whose hidden layers have equal widths.

    Args:
        hidden: width of the rows' layers, of which the last is twice as wide; by default as gives about
            `budget` parameters.
        out: width of the result.
    """

    method: ClassVar[str] = "inr2vec"
    each: nn.Sequential

    def __init__(self, hidden: int | None = None, out: int = 1, *, budget: int = 50_000) -> None:
        super().__init__()
        self.hidden, self.out, self.budget = hidden, out, budget

    def form_of(self, stack: Stack, batch: Batch) -> dict[str, Any]:
        layers = chain_of(stack, batch, self.method).layers
        widths = {layer.outputs for layer in layers[:-1]}
        if len(widths) != 1 or any(layer.taps > 1 for layer in layers):
            raise UnsupportedNetwork(
                f"inr2vec takes MLPs with hidden layers of equal widths, and {batch.names[stack.members[0]]} "
                "is none. The method gmn takes any network."
            )
        return super().form_of(stack, batch) | {"width": widths.pop()}

    def make_layers(self) -> dict[str, nn.Module]:
        width = self.form["width"]
        hidden = self.hidden or width_within(self.budget, 7, width + 2 * self.out + 14)
        sizes = [width, hidden, hidden, 2 * hidden]
        rows = [
            layer
            for before, after in pairwise(sizes)
            for layer in (nn.Linear(before, after), nn.BatchNorm1d(after), nn.ReLU())
        ]
        return {"each": nn.Sequential(*rows), "head": Mlp(2 * hidden, 2 * hidden, self.out)}

    def forward(self, batch: Batch) -> Tensor:  # [B, out]
        batch = self.standardized(batch)
        chains = [chain_of(stack, batch, self.method) for stack in batch.stacks]
        parts = [_rows(*pair).flatten(1) for pair in zip(chains, batch.stacks, strict=True)]
        rows = join_stacks(batch, parts).unflatten(1, (-1, self.form["width"]))  # [B, rows, width]
        each = self.each(rows.flatten(0, 1)).unflatten(0, rows.shape[:2])
        return self.head(each.amax(1))


def _rows(chain: Chain, stack: Stack) -> Tensor:  # [n, rows, width]
    """Stack all rows that have the width of the hidden layers."""
    first, *others = (weight[..., 0] for weight in chain.weights(stack))
    biases = [bias.movedim(-1, 1) for bias in chain.biases(stack)[:-1] if bias is not None]
    return torch.cat([first.transpose(1, 2), *others, *biases], dim=1)
