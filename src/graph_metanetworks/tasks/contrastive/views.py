"""Views of networks: copies with noise and masked weights, which a contrastive loss brings together.

All act on stacked weights, so a batch costs a few operations per parameter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Literal

import torch
from torch import Tensor

from graph_metanetworks.graph.batch import Batch, Stack
from graph_metanetworks.symmetry.rescaled import rescaled_stack

Kind = Literal["described", "released", "noise"]
KINDS = ("described", "released", "noise")


@dataclass(frozen=True)
class Views:
    """How two views of a network are made.

    >>> import torch, graph_metanetworks as gmn
    >>> model = torch.nn.Linear(3, 2)
    >>> batch = gmn.collate([(gmn.trace(model, torch.zeros(1, 3)), model.state_dict())])
    >>> first, second = Views("released").pair(batch, torch.Generator().manual_seed(0))
    >>> first is batch, len(second)
    (True, 1)

    Args:
        kind: "described" (as the papers describe it: Gaussian noise, and masked weights), "noise" (only that)
            or "released" (as the code of DWSNets does it: one view is clean; the other one gets a constant
            instead of noise, and dropout, which divides the survivors by their share).
        noise: in standard deviations of each tensor of each network.
        mask: the share of weights that become zero.
        symmetries: each view gets another order of its neurons, and other signs and phases of its units.
    """

    kind: Kind = "described"
    noise: float = 0.2
    mask: float = 0.5
    symmetries: bool = False

    def pair(self, batch: Batch, generator: torch.Generator) -> tuple[Batch, Batch]:
        """Return two views of each network of a batch."""
        first = batch if self.kind == "released" else self._changed(batch, generator)
        second = self._changed(batch, generator)
        if not self.symmetries:
            return first, second
        return symmetric_copies(first, generator), symmetric_copies(second, generator)

    def _changed(self, batch: Batch, generator: torch.Generator) -> Batch:
        def changed(value: Tensor) -> Tensor:
            value = self._shifted(value, generator)
            if not self.mask or self.kind == "noise":
                return value
            kept = torch.rand(value.shape, generator=generator).to(value.device) >= self.mask
            return value * kept / (1 - self.mask if self.kind == "released" else 1)

        stacks = (
            replace(stack, weights={name: changed(value) for name, value in stack.weights.items()})
            for stack in batch.stacks
        )
        return replace(batch, stacks=tuple(stacks))

    def _shifted(self, value: Tensor, generator: torch.Generator) -> Tensor:
        size = self.noise * value.std(dim=0, correction=0, keepdim=True)  # [1, networks, channels]
        if self.kind == "released":
            return value + size
        return value + size * torch.randn(value.shape, generator=generator).to(value)


def symmetric_copies(batch: Batch, generator: torch.Generator) -> Batch:
    """Return networks that compute the same functions, each moved by a random symmetry of its own."""

    def copied(stack: Stack) -> Stack:
        orders = stack.graph.symmetry.sample_stack(len(stack.members), generator)
        return replace(
            stack, weights=rescaled_stack(stack.graph.scaling, orders.apply(stack.weights), generator)
        )

    return replace(batch, stacks=tuple(map(copied, batch.stacks)))


def join(batches: Sequence[Batch]) -> Batch:
    """Join versions of the same networks, one after the other, into one batch: [n] -> [versions * n]."""
    stacks = []
    for same in zip(*(batch.stacks for batch in batches), strict=True):
        members = (
            version * len(batches[0]) + member for version, own in enumerate(same) for member in own.members
        )
        weights = {name: torch.cat([own.weights[name] for own in same], dim=1) for name in same[0].weights}
        stacks.append(Stack(same[0].graph, tuple(members), weights))
    return Batch(tuple(stacks), tuple(chain.from_iterable(batch.names for batch in batches)))
