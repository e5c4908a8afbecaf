"""Permute the networks of a batch before a model sees them: at random, as an augmentation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from graph_metanetworks.graph.batch import Batch
from graph_metanetworks.symmetry.stacks import StackedAutomorphism

Level = Literal["graph", "node", "edge"]


@dataclass(frozen=True, eq=False)
class Orders:
    """A batch, and an element of its group for each of its networks."""

    batch: Batch
    stacks: Sequence[StackedAutomorphism]  # by stack of the batch

    def apply(self) -> Batch:
        """Return the batch of permuted networks, which compute the same functions."""
        pairs = zip(self.batch.stacks, self.stacks, strict=True)
        moved = tuple(replace(stack, weights=order.apply(stack.weights)) for stack, order in pairs)
        return replace(self.batch, stacks=moved)

    def restore(self, results: Tensor, level: Level) -> Tensor:
        """Bring results for the permuted networks to the order of the batch: `[N, k]` or `[E, k]`."""
        return results if level == "graph" else results[self._places(level).to(results.device)]

    def _places(self, level: Level) -> Tensor:
        starts = self.batch.node_starts if level == "node" else self.batch.edge_starts
        places = torch.empty(starts[-1], dtype=torch.int64, device="cpu")
        for stack, order in zip(self.batch.stacks, self.stacks, strict=True):
            own = torch.tensor([starts[member] for member in stack.members], device="cpu")[:, None]
            moved = order.nodes if level == "node" else order.edges  # [networks, N]
            places[own + torch.arange(moved.shape[1], device="cpu")] = own + moved
        return places


class Reordering(nn.Module, ABC):
    """Base of preparations that permute the neurons of each network."""

    @abstractmethod
    def orders(self, batch: Batch) -> Orders | None:
        """Choose how to permute each network; None leaves the batch as it is."""

    def forward(self, batch: Batch) -> Batch:
        orders = self.orders(batch)
        return batch if orders is None else orders.apply()


class Permuted(Reordering):
    """In training mode, replace each network by a random copy under its own group of permutations.

    The copies are new in each call. Their seed and the number of calls are part of the state dict, so a run
    that is resumed sees the copies that it would have seen.
    """

    def __init__(self) -> None:
        super().__init__()
        self.seed = nn.Buffer(torch.tensor(torch.initial_seed() % 2**32))
        self.calls = nn.Buffer(torch.tensor(0))

    def orders(self, batch: Batch) -> Orders | None:
        if not self.training or not torch.is_grad_enabled():  # fitting needs no copies
            return None
        entropy = np.random.SeedSequence((int(self.seed), int(self.calls))).generate_state(1, np.uint64)
        generator = torch.Generator().manual_seed(int(entropy[0]))
        self.calls += 1
        drawn = [stack.graph.symmetry.sample_stack(len(stack.members), generator) for stack in batch.stacks]
        return Orders(batch, drawn)
