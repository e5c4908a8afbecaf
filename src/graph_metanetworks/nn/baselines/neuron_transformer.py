"""A transformer with neurons as tokens."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from graph_metanetworks.graph.batch import Batch, Stack
from graph_metanetworks.nn.baselines.chain import chain_of, join_stacks
from graph_metanetworks.nn.baselines.one_architecture import OneArchitecture, width_within
from graph_metanetworks.nn.mlp import Mlp


class NeuronTransformer(OneArchitecture):
    """A transformer on neurons, after `Schürholt et al. <https://arxiv.org/abs/2110.15288>`_ (NeurIPS 2021).

    A token is a neuron or channel: its incoming weights and its bias, through a linear layer of its own for
    each layer of the network. Output neurons have embeddings; hidden ones have no position in their layer. So
    the order of a hidden matrix's rows, with its bias, is not seen, but that of its columns is: it is not
    invariant to permuted neurons. It takes plain chains of one architecture.

    Args:
        hidden: width of tokens, a multiple of `heads`; by default as gives about `budget` parameters.
        out: width of the result.
        layers, heads: of the transformer.
    """

    method: ClassVar[str] = "transformer"
    tokens: nn.ModuleList
    outputs: nn.Embedding
    encoder: nn.TransformerEncoder
    norm: nn.LayerNorm

    def __init__(
        self,
        hidden: int | None = None,
        out: int = 1,
        *,
        layers: int = 2,
        heads: int = 4,
        budget: int = 50_000,
    ) -> None:
        super().__init__()
        self.hidden, self.out, self.layers, self.heads, self.budget = hidden, out, layers, heads, budget

    def form_of(self, stack: Stack, batch: Batch) -> dict[str, Any]:
        layers = chain_of(stack, batch, self.method).layers
        rows = [layer.inputs * layer.taps + (layer.bias is not None) for layer in layers]
        return super().form_of(stack, batch) | {"rows": rows, "outputs": layers[-1].outputs}

    def make_layers(self) -> dict[str, nn.Module]:
        rows, outputs = self.form["rows"], self.form["outputs"]
        hidden = self.hidden or self._within_budget(sum(rows) + len(rows) + outputs)
        layer = nn.TransformerEncoderLayer(
            hidden, self.heads, 2 * hidden, dropout=0.0, batch_first=True, norm_first=True
        )
        return {
            "tokens": nn.ModuleList(nn.Linear(row, hidden) for row in rows),
            "outputs": nn.Embedding(outputs, hidden),
            "encoder": nn.TransformerEncoder(layer, self.layers, enable_nested_tensor=False),
            "norm": nn.LayerNorm(hidden),
            "head": Mlp(hidden, 2 * hidden, self.out),
        }

    def _within_budget(self, linear: int) -> int:
        # of each layer: 4 h² for attention, 4 h² for the MLP, biases and norms; of the head 2 h²
        width = width_within(self.budget, 8 * self.layers + 2, linear + 11 * self.layers + 4 + 2 * self.out)
        return max(1, round(width / self.heads)) * self.heads

    def forward(self, batch: Batch) -> Tensor:  # [B, out]
        batch = self.standardized(batch)
        tokens = join_stacks(batch, [self._tokens(stack, batch).mean(1) for stack in batch.stacks])
        return self.head(self.norm(tokens))

    def _tokens(self, stack: Stack, batch: Batch) -> Tensor:  # [n, neurons, hidden]
        chain, parts = chain_of(stack, batch, self.method), []
        triples = zip(self.tokens, chain.weights(stack), chain.biases(stack), strict=True)
        for linear, weight, bias in triples:
            row = weight.flatten(2)
            parts.append(linear(row if bias is None else torch.cat([row, bias], dim=2)))
        parts[-1] = parts[-1] + self.outputs.weight
        return self.encoder(torch.cat(parts, dim=1))
