"""Chains of a few neurons, with flat weights: maps between their weights as matrices."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor, nn

from graph_metanetworks.nn.baselines.chain_form import ChainForm, Permuted

Tensors = list[Tensor]


@dataclass(frozen=True)
class TinyChain:
    """An MLP of these sizes; all weights and biases, layer by layer, are one flat vector."""

    sizes: tuple[int, ...]
    biased: bool = True

    @property
    def form(self) -> ChainForm:
        layers = len(self.sizes) - 1
        return ChainForm(self.sizes[0], self.sizes[-1], 1, (1,) * layers, (self.biased,) * layers)

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        return [tuple(self.sizes[group] for group in slot.groups) for slot in self.form.slots]

    @property
    def numels(self) -> list[int]:
        return [prod(shape) for shape in self.shapes]

    @property
    def numel(self) -> int:
        return sum(self.numels)

    def tensors(self, flat: Tensor) -> Tensors:
        """Split flat weights. [n, D, c] -> [n, out, in, c], [n, out, c], ..."""
        parts = zip(flat.split(self.numels, dim=1), self.shapes, strict=True)
        return [part.reshape(-1, *shape, flat.shape[-1]) for part, shape in parts]

    def exchanges(self, permuted: Permuted) -> Iterator[Tensor]:
        """Yield matrices on flat weights that exchange two neighbouring neurons of a permuted group."""
        identity = torch.eye(self.numel, dtype=torch.float64)
        groups = range(1, len(self.sizes) - 1) if permuted == "hidden" else range(len(self.sizes))
        for group in groups:
            for first in range(self.sizes[group] - 1):
                order = torch.arange(self.sizes[group])
                order[[first, first + 1]] = order[[first + 1, first]]
                numbers = self.tensors(torch.arange(self.numel)[None, :, None])
                moved = [
                    x.index_select(1 + slot.groups.index(group), order) if group in slot.groups else x
                    for x, slot in zip(numbers, self.form.slots, strict=True)
                ]
                yield identity[torch.cat([x.flatten() for x in moved])]

    def entry_changes(self) -> Iterator[Tensor]:
        """Yield matrices that change the sign of one weight, or exchange two of one tensor."""
        identity, start = torch.eye(self.numel, dtype=torch.float64), 0
        for numel in self.numels:
            for place in range(start, start + numel):
                sign = identity.clone()
                sign[place, place] = -1
                yield sign
            for place in range(start + 1, start + numel):
                exchange = identity.clone()
                exchange[[place - 1, place]] = identity[[place, place - 1]]
                yield exchange
            start += numel


def commuting(generators: Sequence[Tensor], size: int) -> int:
    """Return the dimension of all `size` x `size` matrices that commute with these."""
    one = torch.eye(size, dtype=torch.float64)
    normal = torch.zeros(size**2, size**2, dtype=torch.float64)
    for matrix in generators:
        equations = torch.kron(matrix, one) - torch.kron(one, matrix.t().contiguous())
        normal += equations.t() @ equations
    return size**2 - int(torch.linalg.matrix_rank(normal, hermitian=True))


def affine(function: Callable[[Tensors], Tensors], chain: TinyChain, channels: int = 1) -> Tensor:
    """Return an affine map as a vector: its value at zero, and how far each unit vector moves it."""
    units = torch.eye(chain.numel * channels, dtype=torch.float64).view(-1, chain.numel, channels)
    inputs = torch.cat([units, torch.zeros_like(units[:1])])
    values = torch.cat([x.flatten(1) for x in function(chain.tensors(inputs))], dim=1)
    return torch.cat([values[-1:], values[:-1] - values[-1]]).flatten()


@torch.no_grad()
def affine_of_each_parameter(
    layer: nn.Module, function: Callable[[Tensors], Tensors], chain: TinyChain, channels: int = 1
) -> Tensor:
    """Return the map that each parameter gives when it is one and all others zero. [parameters, numbers]

    Afterwards all parameters are zero.
    """
    for parameter in layer.parameters():
        parameter.zero_()
    found = []
    for parameter in layer.parameters():
        for entry in range(parameter.numel()):
            parameter.view(-1)[entry] = 1
            found.append(affine(function, chain, channels))
            parameter.view(-1)[entry] = 0
    return torch.stack(found)
