"""Canonical form of a batch: weights that are the same for all rescaled copies of a network."""

from __future__ import annotations

from dataclasses import replace

from torch import nn

from graph_metanetworks.graph.batch import Batch, Stack
from graph_metanetworks.symmetry.scaling import CANONICAL_KINDS, CanonicalKind


class Canonical(nn.Module):
    """Bring the scales, signs and phases of units to a fixed representative; see `graph.scaling.canonical`.

    A metanetwork behind it is invariant to rescalings that leave the functions of its input networks
    unchanged, and still equivariant to permutations. Gradients reach the weights. Networks without such
    symmetries pass through as they are.

    >>> import torch, graph_metanetworks as gmn
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    >>> graph = gmn.trace(model, torch.randn(1, 2))
    >>> rescaled = graph.scaling.sample(torch.Generator().manual_seed(0)).apply(model.state_dict())
    >>> batch = gmn.collate([(graph, model.state_dict()), (graph, rescaled)])
    >>> metanetwork, canonical = gmn.GraphMetanetwork(8, 2), gmn.nn.Canonical()
    >>> first, second = metanetwork(canonical(batch))
    >>> torch.allclose(first, second, atol=1e-5)
    True

    Args:
        kind: "scales" for scales, signs and phases; "signs" for signs and phases only.
    """

    def __init__(self, kind: CanonicalKind = "scales") -> None:
        super().__init__()
        if kind not in CANONICAL_KINDS:
            raise ValueError(f"kind={kind!r} is none of {', '.join(CANONICAL_KINDS)}")
        self.kind: CanonicalKind = kind

    def extra_repr(self) -> str:
        return repr(self.kind)

    def forward(self, batch: Batch) -> Batch:
        stacks = tuple(self._stack(stack) for stack in batch.stacks)
        if all(own is given for own, given in zip(stacks, batch.stacks, strict=True)):
            return batch
        return replace(batch, stacks=stacks)

    def _stack(self, stack: Stack) -> Stack:
        weights = stack.graph.scaling.canonical_stack(stack.weights, kind=self.kind)
        if all(value is stack.weights[name] for name, value in weights.items()):
            return stack
        return replace(stack, weights=weights)
