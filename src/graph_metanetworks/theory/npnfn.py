"""Statement 6: a graph metanetwork that equals a linear layer of NP-NFN (appendix C.1.2).

The layer maps weights to weights, by sums over rows, columns and whole matrices. In the metanetwork the
global feature holds the sums over matrices, nodes hold those over rows and columns, and edges combine them.

The paper's edge update for biases reads the state of `j`, the bias node, where the bias's neuron is meant.
That is the target `i` of the edge, and it is what is read here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

import torch
from torch import Tensor

from graph_metanetworks.graph.batch import collate
from graph_metanetworks.nn.metanetwork import GraphMetanetwork
from graph_metanetworks.nn.updates import EdgeUpdate, GlobalUpdate, NodeUpdate
from graph_metanetworks.theory.features import IS_BIAS, LAYER, VALUE, EdgeStates, by_hand
from graph_metanetworks.theory.networks import random_mlp
from graph_metanetworks.theory.statement import Trial
from graph_metanetworks.trace.tracer import trace

COLUMN_SUM, ROW_SUM, BIAS = 0, 1, 2  # columns of node states: of the weights out, of those in; the bias


@dataclass(frozen=True)
class Coefficients:
    """The learnable numbers of the layer, `a` for weights and `c` for biases.

    All indices are the paper's: coefficients, layers `l` and layers `s` are numbered from 1.
    """

    a: Sequence[Tensor]  # a[1] and a[7] are [L + 1, L + 1], the others [L + 1]
    c: Sequence[Tensor]  # c[1] and c[4] are [L + 1, L + 1], the others [L + 1]

    @staticmethod
    def random(layers: int, generator: torch.Generator) -> Coefficients:
        def draw(is_square: bool) -> Tensor:
            shape = [layers + 1] * (2 if is_square else 1)
            return torch.randn(shape, dtype=torch.float64, generator=generator)

        return Coefficients([draw(n in (1, 7)) for n in range(10)], [draw(n in (1, 4)) for n in range(6)])

    @property
    def layers(self) -> int:
        return len(self.a[1]) - 1


def trials(seed: int, count: int) -> Iterator[Trial]:
    random, generator = Random(seed), torch.Generator().manual_seed(seed)
    for number in range(count):
        layers, bias = 1 + number // 2 % 3, number % 2 == 1
        coefficients = Coefficients.random(layers, generator)
        widths = [[random.randint(1, 5) for _ in range(layers + 1)] for _ in range(2)]
        models = [random_mlp(own, random, bias=bias) for own in widths]
        examples = [torch.zeros(1, own[0], dtype=torch.float64) for own in widths]
        batch = collate([(trace(m, x), m.state_dict()) for m, x in zip(models, examples, strict=True)])
        found = batch.state_dicts(as_metanetwork(coefficients)(batch))
        errors = [
            float((found[place][name] - value).abs().max())
            for place, model in enumerate(models)
            for name, value in npnfn(model.state_dict(), coefficients).items()
        ]
        yield Trial("with biases" if bias else "without biases", len(models), max(errors))


# ------------------------------------------------------------------ NP-NFN, from its formula


def npnfn(state_dict: dict[str, Tensor], coefficients: Coefficients) -> dict[str, Tensor]:
    """Return new weights and biases of an MLP, as the paper writes them."""
    a, c, layers = coefficients.a, coefficients.c, range(1, coefficients.layers + 1)
    W, b = _padded(state_dict, coefficients.layers)
    found = {}
    for l in layers:  # noqa: E741  (the paper's letter)
        everywhere = sum(a[1][l, s] * W[s].sum() + a[7][l, s] * b[s].sum() for s in layers)
        by_column = a[2][l] * W[l].sum(0) + a[3][l] * W[l - 1].sum(1) + a[9][l] * b[l - 1]
        by_row = a[4][l] * W[l].sum(1) + a[5][l] * W[l + 1].sum(0) + a[8][l] * b[l]
        found[_name(l, "weight")] = everywhere + by_column[None, :] + by_row[:, None] + a[6][l] * W[l]
        everywhere = sum(c[1][l, s] * W[s].sum() + c[4][l, s] * b[s].sum() for s in layers)
        by_neuron = c[2][l] * W[l].sum(1) + c[3][l] * W[l + 1].sum(0) + c[5][l] * b[l]
        found[_name(l, "bias")] = everywhere + by_neuron
    return {name: found[name] for name in state_dict}


def _padded(state_dict: dict[str, Tensor], layers: int) -> tuple[list[Tensor], list[Tensor]]:
    """Return weights and biases by layer.

    `W[0]`, `W[L + 1]` and `b[0]`, which do not exist, have zero sums.
    """
    W = [state_dict[_name(layer, "weight")] for layer in range(1, layers + 1)]
    inputs, outputs = W[0].shape[1], W[-1].shape[0]
    W = [W[0].new_zeros(inputs, 0), *W, W[0].new_zeros(0, outputs)]
    zeros = [matrix.new_zeros(len(matrix)) for matrix in W]
    biases = [state_dict.get(_name(layer, "bias"), zeros[layer]) for layer in range(1, layers + 1)]
    return W, [zeros[0], *biases]


def _name(layer: int, part: str) -> str:
    """Return the name of a parameter of `mlp_of`, where every second module is an activation."""
    return f"{2 * (layer - 1)}.{part}"


# ------------------------------------------------------------------ the same as a metanetwork


def as_metanetwork(coefficients: Coefficients) -> GraphMetanetwork:
    """Build one update each for the global feature, nodes and edges, in the order of the proof."""
    a, c = coefficients.a, coefficients.c
    layers = coefficients.layers

    def by_layer_and_kind(edges: Tensor, context: Tensor) -> Tensor:
        """Place the weight in the column of its layer: weights first, then biases. [E, 2 L]"""
        column = (edges[:, LAYER] - 1 + layers * edges[:, IS_BIAS]).long()
        return torch.nn.functional.one_hot(column, 2 * layers) * edges[:, [VALUE]]

    def message(to: Tensor, fro: Tensor, edges: Tensor, along: bool, context: Tensor | None) -> Tensor:
        value, is_bias = edges[:, VALUE], edges[:, IS_BIAS].bool()
        parts = (value * (~is_bias & (not along)), value * (~is_bias & along), value * (is_bias & along))
        return torch.stack(parts, dim=1)

    def combine(source: Tensor, target: Tensor, edges: Tensor, context: Tensor | None) -> Tensor:
        assert context is not None
        layer = edges[:, LAYER].long()
        matrices, vectors = context[:, :layers], context[:, layers:]
        weight = (
            (a[1][layer, 1:] * matrices).sum(1)
            + a[2][layer] * source[:, COLUMN_SUM]
            + a[3][layer] * source[:, ROW_SUM]
            + a[4][layer] * target[:, ROW_SUM]
            + a[5][layer] * target[:, COLUMN_SUM]
            + a[6][layer] * edges[:, VALUE]
            + (a[7][layer, 1:] * vectors).sum(1)
            + a[8][layer] * target[:, BIAS]
            + a[9][layer] * source[:, BIAS]
        )
        bias = (
            (c[1][layer, 1:] * matrices).sum(1)
            + c[2][layer] * target[:, ROW_SUM]
            + c[3][layer] * target[:, COLUMN_SUM]
            + (c[4][layer, 1:] * vectors).sum(1)
            + c[5][layer] * edges[:, VALUE]
        )
        return torch.where(edges[:, IS_BIAS].bool(), bias, weight)[:, None]

    blocks = [
        GlobalUpdate(lambda features, nodes, edges: edges, of_edges=by_layer_and_kind),
        NodeUpdate(message, lambda nodes, messages, context: messages),
        EdgeUpdate(combine),
    ]
    return by_hand(blocks, EdgeStates(), level="edge", global_width=2 * layers)
