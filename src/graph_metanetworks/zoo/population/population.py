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
        self.weights = torch.cat(
            [value.flatten(1) for value in parameters.values()], dim=1
        )  # [G, parameters]
        parts = self.weights.split([value[0].numel() for value in parameters.values()], dim=1)
        self.parameters = {
            name: part.view(value.shape).requires_grad_()
            for (name, value), part in zip(parameters.items(), parts, strict=True)
        }  # by name, [G, ...]: views of the weights
        way.use(self.parameters)
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
            found.append((rows, ROW_OPTIMIZERS[name](self.weights[rows])))
            start = rows.stop
        return found

    def step(self, images: Tensor, labels: Tensor, factor: float) -> None:
        """One step of every network's optimiser, at `factor` times its learning rate."""
        losses = smoothed_cross_entropy(self.way(images), labels, self.smoothing)
        gradients = torch.autograd.grad(losses.sum(), list(self.parameters.values()))
        with torch.no_grad():
            gradient = torch.cat([each.flatten(1) for each in gradients], dim=1)
            gradient.addcmul_(self.weights, self.decays)
            for rows, optimizer in self.optimizers:
                optimizer.step(self.weights[rows], gradient[rows], factor * self.rates[rows])

    @torch.no_grad()
    def logits(self, images: Tensor) -> Tensor:  # [G, batch, classes]
        return self.way(images)

    def state_dict(self, network: int) -> dict[str, Tensor]:
        """A copy of the parameters and buffers of a network."""
        stacked = self.parameters | self.way.buffers
        return {name: value[network].detach().clone() for name, value in stacked.items()}


def smoothed_cross_entropy(logits: Tensor, labels: Tensor, smoothing: Tensor) -> Tensor:
    """The mean loss of each network: `[G, batch, classes]`, `[batch]`, `[G]` -> `[G]`."""
    logs = functional.log_softmax(logits, -1)
    right = logs.gather(-1, labels.expand(len(logs), -1).unsqueeze(-1)).squeeze(-1)
    return -((1 - smoothing) * right.mean(1) + smoothing * logs.mean((1, 2)))
