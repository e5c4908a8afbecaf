"""A population: networks of one architecture that are trained in one go."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import torch
from torch import Tensor
from torch.nn import functional

from graph_metanetworks.zoo.population.course import TrainingConfig
from graph_metanetworks.zoo.population.optimizers import ROW_OPTIMIZERS, RowOptimizer
from graph_metanetworks.zoo.population.ways import Way


class Population:
    """Stacked weights, and one optimiser step for all networks.

    Networks do not touch each other: one that diverges leaves the others as they are.
    """

    def __init__(self, parameters: dict[str, Tensor], way: Way, configs: Sequence[TrainingConfig]) -> None:
        """`configs` are in order of optimiser: networks with the same one are neighbours."""
        self.way = way
        self.shapes = {name: value.shape for name, value in parameters.items()}
        self.weights = torch.cat(
            [value.flatten(1) for value in parameters.values()], dim=1
        )  # [G, parameters]
        self.weights.requires_grad_()
        self.rates = self._column([config.learning_rate for config in configs])
        self.decays = self._column([config.weight_decay for config in configs])
        self.smoothing = self._column([config.label_smoothing for config in configs]).squeeze(1)
        self.optimizers = self._row_optimizers([config.optimizer for config in configs])

    def _column(self, values: list[float]) -> Tensor:  # [G, 1]
        return torch.tensor(values, dtype=self.weights.dtype).unsqueeze(1)

    def _row_optimizers(self, names: list[str]) -> list[tuple[slice, RowOptimizer]]:
        found, start = [], 0
        for name, same in groupby(names):
            rows = slice(start, start + len(list(same)))
            found.append((rows, ROW_OPTIMIZERS[name](self.weights.detach()[rows])))
            start = rows.stop
        return found

    def parameters(self) -> dict[str, Tensor]:
        """By name, `[G, ...]`: views of the weights, so that their gradient comes back as one tensor."""
        parts = self.weights.split([shape[1:].numel() for shape in self.shapes.values()], dim=1)
        return {
            name: part.view(shape) for (name, shape), part in zip(self.shapes.items(), parts, strict=True)
        }

    def step(self, images: Tensor, labels: Tensor, factor: float) -> None:
        """One step of every network's optimiser, at `factor` times its learning rate."""
        losses = smoothed_cross_entropy(self.way(self.parameters(), images), labels, self.smoothing)
        (gradient,) = torch.autograd.grad(losses.sum(), self.weights)
        with torch.no_grad():
            weights = self.weights.detach()
            gradient.addcmul_(weights, self.decays)
            for rows, optimizer in self.optimizers:
                optimizer.step(weights[rows], gradient[rows], factor * self.rates[rows])

    @torch.no_grad()
    def logits(self, images: Tensor) -> Tensor:  # [G, batch, classes]
        return self.way(self.parameters(), images)

    def state_dict(self, network: int) -> dict[str, Tensor]:
        """A copy of the parameters and buffers of a network."""
        stacked = self.parameters() | self.way.buffers
        return {name: value[network].detach().clone() for name, value in stacked.items()}


def smoothed_cross_entropy(logits: Tensor, labels: Tensor, smoothing: Tensor) -> Tensor:
    """The mean loss of each network: `[G, batch, classes]`, `[batch]`, `[G]` -> `[G]`."""
    logs = functional.log_softmax(logits, -1)
    right = logs.gather(-1, labels.expand(len(logs), -1).unsqueeze(-1)).squeeze(-1)
    return -((1 - smoothing) * right.mean(1) + smoothing * logs.mean((1, 2)))
