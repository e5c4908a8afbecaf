"""Align the networks of a batch to a reference of their architecture before a model sees them."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

import torch
from torch import Tensor, nn

from graph_metanetworks.errors import UnsupportedNetwork
from graph_metanetworks.graph.batch import Batch, Stack
from graph_metanetworks.graph.parameter_graph import ParameterGraph
from graph_metanetworks.nn.fitted import Fitted, resize_buffers
from graph_metanetworks.nn.reordering import Orders, Reordering
from graph_metanetworks.symmetry.align import align_stack
from graph_metanetworks.symmetry.stacks import StackedAutomorphism

REMEMBERED = 2**16  # permutations that are kept, by the content of networks


class Aligned(Fitted, Reordering):
    """Permute each network such that its weights are as close to a reference as can be found.

    The references are the first network of each architecture in the training zoo, and part of the state dict.
    Permutations are remembered, so networks that come again, in each pass over a zoo, cost nothing.
    """

    def __init__(self) -> None:
        super().__init__()
        self.references = nn.Buffer(torch.zeros(0))  # one after the other
        self.sizes = nn.Buffer(torch.zeros(0, dtype=torch.int64))
        resize_buffers(self, "references", "sizes")
        self._known: dict[tuple[int, int], Tensor] = {}  # by architecture and fingerprint

    def make_tables(self) -> None:
        """Keep the references: loading resizes them."""

    def fit(self, batches: Iterable[Batch]) -> None:
        """Take references from a training zoo."""
        found: dict[str, Tensor] = {}
        for batch in batches:
            for stack in batch.stacks:
                name = _architecture(stack.graph)
                if name not in found:
                    values = [stack.weights[p.name][:, 0, 0] for p in stack.graph.parameters]
                    found[name] = torch.cat(values).to(self.references)
        self.set_fitted_names(found)
        self.references = nn.Buffer(torch.cat(list(found.values())))
        self.sizes = nn.Buffer(torch.tensor([len(values) for values in found.values()]))
        self._known.clear()

    def orders(self, batch: Batch) -> Orders:
        return Orders(batch, [self._order(stack, batch) for stack in batch.stacks])

    @torch.no_grad()
    def _order(self, stack: Stack, batch: Batch) -> StackedAutomorphism:
        name = _architecture(stack.graph)
        if name not in self.fitted_names:
            raise UnsupportedNetwork(
                f"{batch.names[stack.members[0]]} has an architecture of which the training zoo has no "
                "network, so there is no reference to align it to. Train without +aligned."
            )
        if len(self._known) > REMEMBERED:
            self._known.clear()
        number = self.fitted_names.index(name)
        keys = [(number, fingerprint) for fingerprint in fingerprints(stack)]
        missing = [place for place, key in enumerate(keys) if key not in self._known]
        if missing:
            rows = self._aligned(stack, missing, number)
            self._known |= {keys[place]: row for place, row in zip(missing, rows, strict=True)}
        return _unpacked(stack, torch.stack([self._known[key] for key in keys]))

    def _aligned(self, stack: Stack, places: list[int], number: int) -> Tensor:
        """Align some networks of a stack; return their tables in one row each."""
        flat = self.references.cpu().split(self.sizes.tolist())[number]
        own = flat.split([parameter.numel for parameter in stack.graph.parameters])
        reference = {p.name: x.view(p.shape) for p, x in zip(stack.graph.parameters, own, strict=True)}
        weights = {name: value[:, places].detach().cpu() for name, value in stack.weights.items()}
        order = align_stack(stack.graph, reference, weights)
        tables = [order.tables[axis].flatten(1) for axis in order.copies.variables]
        return torch.cat(tables, 1).int() if tables else torch.zeros(len(places), 0, dtype=torch.int32)


def _unpacked(stack: Stack, rows: Tensor) -> StackedAutomorphism:
    copies = stack.graph.symmetry.copies(len(rows))
    shapes = [copies.table_shape(axis) for axis in copies.variables]
    parts = rows.long().split([prod(shape[1:]) for shape in shapes], dim=1)
    tables = [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]
    return StackedAutomorphism(copies, dict(zip(copies.variables, tables, strict=True)))


def fingerprints(stack: Stack) -> list[int]:
    """Return a number for each network that tells it from others: a random sum of the bits of its weights."""
    generator = torch.Generator().manual_seed(0)
    total = torch.zeros(len(stack.members), dtype=torch.int64)
    for value in stack.weights.values():
        weights = value[..., 0].detach().cpu().contiguous()
        bits = weights.view(torch.int32 if weights.element_size() == 4 else torch.int64).long()
        factors = torch.randint(-(2**62), 2**62, (len(bits), 1), generator=generator)
        total += (bits * (2 * factors + 1)).sum(0)
    return total.tolist()


def _architecture(graph: ParameterGraph) -> str:
    """Return what tells the parameters and activations of a network from others."""
    tensors = [f"{p.name} {'x'.join(map(str, p.shape))}" for p in graph.parameters]
    return ", ".join([*tensors, *dict.fromkeys(group.activation for group in graph.groups)])
