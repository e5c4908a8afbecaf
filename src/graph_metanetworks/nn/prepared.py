"""Models that see a batch only after it was prepared: brought to canonical form, permuted or aligned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from graph_metanetworks.graph.batch import Batch, require_batch
from graph_metanetworks.nn.reordering import Level, Orders, Reordering


class Prepared(nn.Module):
    """A model behind a preparation: a module from batch to batch, which may have a method `fit`.

    Results per node and edge are in the order of the batch that is given, even if the preparation permutes
    networks. Those per edge are otherwise for the prepared weights, which `seen` returns.

    >>> import torch, graph_metanetworks as gmn
    >>> from graph_metanetworks.nn.baselines import StatNN
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    >>> graph = gmn.trace(model, torch.randn(1, 2))
    >>> rescaled = graph.scaling.sample(torch.Generator().manual_seed(0)).apply(model.state_dict())
    >>> batch = gmn.collate([(graph, model.state_dict()), (graph, rescaled)])
    >>> statnn = prepared(gmn.nn.Canonical(), StatNN(16))
    >>> statnn.fit([batch])
    >>> statnn(batch).shape
    torch.Size([2, 1])
    >>> first, second = statnn.seen(batch).stacks[0].weights["0.weight"].unbind(1)  # what the model sees
    >>> torch.allclose(first, second, atol=1e-5)
    True
    """

    def __init__(self, preparation: nn.Module, model: nn.Module, level: Level = "graph") -> None:
        super().__init__()
        self.preparation, self.model = preparation, model
        self.level: Level = level

    def fit(self, batches: Iterable[Batch]) -> None:
        """Fit the preparation, then the model to what it will see."""
        batches = list(batches) if isinstance(batches, Iterator) else batches
        if hasattr(self.preparation, "fit"):
            cast(Any, self.preparation).fit(batches)
        cast(Any, self.model).fit(_Each(self, batches))

    def forward(self, batch: Batch, **options: Any) -> Tensor:
        require_batch(batch)
        ready, orders = self.prepare(batch)
        results = self.model(ready, **options)
        return results if orders is None else orders.restore(results, self.level)

    def prepare(self, batch: Batch) -> tuple[Batch, Orders | None]:
        """Return what the model sees, and how networks were permuted for it."""
        if not isinstance(self.preparation, Reordering):
            return self.preparation(batch), None
        orders = self.preparation.orders(batch)
        return (batch, None) if orders is None else (orders.apply(), orders)

    def seen(self, batch: Batch) -> Batch:
        """Return the networks that results per edge belong to: those given, in canonical form if need be."""
        if not isinstance(self.preparation, Reordering):
            batch = self.preparation(batch)
        return seen(self.model, batch)


class PreparedEmbedder(Prepared):
    """A prepared model that has embeddings."""

    def embed(self, batch: Batch) -> Tensor:
        """Return the representation of each network before the last layer. [B, d]"""
        ready, _ = self.prepare(batch)
        return cast(Any, self.model).embed(ready)


class PreparedLearner(Prepared):
    """A prepared model that is not trained by gradient descent."""

    def learn(self, examples: Iterable[tuple[Batch, Tensor]], *, seed: int = 0) -> None:
        """Let the model learn from prepared networks, in float64 as for prediction."""
        self.double()
        ready = ((self.prepare(batch.to(torch.float64))[0], targets) for batch, targets in examples)
        cast(Any, self.model).learn(ready, seed=seed)


def prepared(preparation: nn.Module, model: nn.Module, level: Level = "graph") -> Prepared:
    """Put a preparation in front of a model; the result can do what the model can."""
    if hasattr(model, "learn"):
        return PreparedLearner(preparation, model, level)
    return (PreparedEmbedder if hasattr(model, "embed") else Prepared)(preparation, model, level)


def seen(model: nn.Module, batch: Batch) -> Batch:
    """Return the networks that a model's results per edge belong to: not those given if it prepares them."""
    return model.seen(batch) if isinstance(model, Prepared) else batch


@dataclass(frozen=True, eq=False)
class _Each:
    """Batches as a model sees them; they can be iterated over repeatedly and are not kept."""

    prepared: Prepared
    batches: Iterable[Batch]

    @torch.no_grad()
    def __iter__(self) -> Iterator[Batch]:
        for batch in self.batches:
            yield self.prepared.prepare(batch)[0]
