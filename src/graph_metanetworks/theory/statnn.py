"""Statement 5: a graph metanetwork that equals StatNN (appendix C.1.1).

StatNN is an MLP of seven statistics of each weight matrix and bias. Each statistic is a function of sums
over edges, held in the global feature. Moments take one sum each. The paper's proof only needs quantiles to
be some function of sums; such functions (power sums) are useless in floating point. Here an order statistic
is found by bisection: each layer counts the weights that are at most the middle of the remaining interval.
After 64 layers no floating-point number is left between the ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import torch
from torch import Tensor, nn

from graph_metanetworks.graph.batch import collate
from graph_metanetworks.nn.metanetwork import GraphMetanetwork
from graph_metanetworks.nn.updates import GlobalUpdate
from graph_metanetworks.theory.features import IS_BIAS, LAYER, VALUE, GlobalState, by_hand
from graph_metanetworks.theory.networks import random_mlp
from graph_metanetworks.theory.statement import Trial
from graph_metanetworks.trace.tracer import trace

QUANTILES = torch.tensor([0, 0.25, 0.5, 0.75, 1], dtype=torch.float64)
STATISTICS = 2 + len(QUANTILES)
ORDERS = 2 * len(QUANTILES)  # the weights below and above each quantile
LARGEST = torch.finfo(torch.float64).max


def trials(seed: int, count: int) -> Iterator[Trial]:
    """Try several MLPs of one depth and different widths as one batch."""
    random = Random(seed)
    for number in range(count):
        layers = 1 + number % 3
        widths = [[random.randint(1, 5) for _ in range(layers + 1)] for _ in range(3)]
        head = _head(layers, random.randrange(2**31))
        models = [random_mlp(own, random) for own in widths]
        examples = [torch.zeros(1, own[0], dtype=torch.float64) for own in widths]
        batch = collate([(trace(m, x), m.state_dict()) for m, x in zip(models, examples, strict=True)])
        with torch.no_grad():
            expected = torch.stack([statnn(model, head) for model in models])
            found = as_metanetwork(layers, head)(batch)
        yield Trial(f"{layers} layers", len(models), float((found - expected).abs().max()))


def _head(layers: int, seed: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(2 * layers * STATISTICS, 16), nn.ReLU(), nn.Linear(16, 3)).double()


# ------------------------------------------------------------------ StatNN, from its definition


def statnn(model: nn.Module, head: nn.Module) -> Tensor:
    """Return an MLP of mean, variance and quantiles of each parameter."""
    return head(torch.cat([statistics(parameter.detach().flatten()) for parameter in model.parameters()]))


def statistics(weights: Tensor) -> Tensor:
    moments = torch.stack([weights.mean(), weights.var(unbiased=False)])
    return torch.cat([moments, torch.quantile(weights, QUANTILES)])


# ------------------------------------------------------------------ the same as a metanetwork


def as_metanetwork(layers: int, head: nn.Module) -> GraphMetanetwork:
    """Build two layers for moments, 64 of bisection, one for the statistics, and StatNN's MLP."""
    tensors = 2 * layers
    columns = 3 + 2 * ORDERS  # count, sum, sum of squares; the ends of an interval for each order
    search = Bisection(tensors)
    blocks = [
        GlobalUpdate(lambda u, _, sums: begin(sums, tensors), of_edges=search.counts_and_sums),
        GlobalUpdate(search.set_squares, of_edges=search.squares),
        *[GlobalUpdate(search.halve, of_edges=search.at_most_middle)] * 64,
        GlobalUpdate(lambda u, _, __: finish(u.unflatten(1, (tensors, columns)))),
    ]
    return by_hand(blocks, GlobalState(head), level="graph", global_width=tensors * columns)


class Bisection:
    """What the layers compute. The global feature is `[B, tensors, 3 + 2 ORDERS]`, flattened."""

    def __init__(self, tensors: int) -> None:
        self.tensors = tensors

    def _own(self, edges: Tensor, context: Tensor) -> Tensor:
        """Return the part of the global feature that belongs to an edge's tensor."""
        return context.unflatten(1, (self.tensors, -1))[torch.arange(len(edges)), self._tensor(edges)]

    def _tensor(self, edges: Tensor) -> Tensor:
        return (2 * (edges[:, LAYER] - 1) + edges[:, IS_BIAS]).long()

    def _spread(self, edges: Tensor, values: Tensor) -> Tensor:
        """Place values in the columns of an edge's tensor, so that sums are taken by tensor."""
        where = nn.functional.one_hot(self._tensor(edges), self.tensors).to(values.dtype)
        return (where[:, :, None] * values[:, None, :]).flatten(1)

    def counts_and_sums(self, edges: Tensor, context: Tensor) -> Tensor:
        weights = edges[:, [VALUE]]
        return self._spread(edges, torch.cat([torch.ones_like(weights), weights], dim=1))

    def squares(self, edges: Tensor, context: Tensor) -> Tensor:
        count, total = self._own(edges, context)[:, :2].T
        return self._spread(edges, (edges[:, VALUE] - total / count).square()[:, None])

    def set_squares(self, features: Tensor, _: Tensor, sums: Tensor) -> Tensor:
        parts = features.unflatten(1, (self.tensors, -1)).clone()
        parts[..., 2] = sums
        return parts.flatten(1)

    def at_most_middle(self, edges: Tensor, context: Tensor) -> Tensor:
        middles = middle(*ends(self._own(edges, context)))
        return self._spread(edges, (edges[:, [VALUE]] <= middles).to(edges.dtype))

    def halve(self, features: Tensor, _: Tensor, counts: Tensor) -> Tensor:
        """Keep the half in which the wanted order statistic lies."""
        parts = features.unflatten(1, (self.tensors, -1))
        low, high = ends(parts)
        middles = middle(low, high)
        enough = counts.unflatten(1, (self.tensors, -1)) >= orders(parts[..., 0]) + 1
        low, high = torch.where(enough, low, middles), torch.where(enough, middles, high)
        return torch.cat([parts[..., :3], low, high], dim=-1).flatten(1)


def begin(sums: Tensor, tensors: int) -> Tensor:
    """Return counts, sums, zeros for squares, and all numbers as the interval of each order statistic."""
    moments = nn.functional.pad(sums.unflatten(1, (tensors, 2)), (0, 1))
    low = sums.new_full((len(sums), tensors, ORDERS), -LARGEST)
    return torch.cat([moments, low, -low], dim=-1).flatten(1)


def ends(parts: Tensor) -> tuple[Tensor, Tensor]:
    low, high = parts[..., 3:].chunk(2, dim=-1)
    return low, high


def orders(count: Tensor) -> Tensor:
    """Return the ranks, from 0, of the weights below and above each quantile. [...] -> [..., ORDERS]"""
    place = QUANTILES * (count[..., None] - 1)
    return torch.cat([place.floor(), place.ceil()], dim=-1)


def finish(parts: Tensor) -> Tensor:
    """Return statistics from counts, sums, squares and orders. [B, tensors, columns] -> [B, tensors * 7]"""
    count, total, squares = parts[..., :3].unbind(-1)
    below, above = ends(parts)[1].chunk(2, dim=-1)
    place = QUANTILES * (count[..., None] - 1)
    quantiles = below + (place - place.floor()) * (above - below)
    return torch.cat([torch.stack([total / count, squares / count], dim=-1), quantiles], dim=-1).flatten(1)


def middle(low: Tensor, high: Tensor) -> Tensor:
    """Return the midpoint of two numbers in the order of all floating-point numbers."""
    low, high = ordered(low), ordered(high)
    return from_ordered((low >> 1) + (high >> 1) + (low & high & 1))  # their sum would overflow


def ordered(numbers: Tensor) -> Tensor:
    """Map floating-point numbers to integers in the same order. [...] of float64 -> [...] of int64"""
    bits = numbers.contiguous().view(torch.int64)
    return torch.where(bits < 0, torch.iinfo(torch.int64).min - bits, bits)


def from_ordered(numbers: Tensor) -> Tensor:
    bits = torch.where(numbers < 0, torch.iinfo(torch.int64).min - numbers, numbers)
    return bits.view(torch.float64)
