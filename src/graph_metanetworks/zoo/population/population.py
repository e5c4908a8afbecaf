"""A population: networks of one architecture that are trained together."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import torch
from torch import Tensor
from torch.nn import functional

from graph_metanetworks.zoo.population.optimizers import ROW_OPTIMIZERS, RowOptimizer
from graph_metanetworks.zoo.population.schedule import TrainingConfig
from graph_metanetworks.zoo.population.training_mode import TrainingMode


class Population:
    """Stacked weights of several networks, with one optimiser step for all.

    Networks do not affect each other, so one that diverges leaves the others unchanged.
    """

    def __init__(
        self, parameters: dict[str, Tensor], mode: TrainingMode, configs: Sequence[TrainingConfig]
    ) -> None:
        """`configs` are sorted by optimiser, so that networks with the same one are contiguous."""
        self.mode = mode
        self.weights = torch.cat(
            [value.flatten(1) for value in parameters.values()], dim=1
        )  # [G, parameters]
        parts = self.weights.split([value[0].numel() for value in parameters.values()], dim=1)
        self.parameters = {
            name: part.view(value.shape).requires_grad_()
            for (name, value), part in zip(parameters.items(), parts, strict=True)
        }  # by name, [G, ...]: views of the weights
        mode.use(self.parameters)
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
        """Take one optimiser step for every network, at `factor` times its learning rate."""
        losses = smoothed_cross_entropy(self.mode(images), labels, self.smoothing)
        gradients = torch.autograd.grad(losses.sum(), list(self.parameters.values()))
        with torch.no_grad():
            gradient = torch.cat([each.flatten(1) for each in gradients], dim=1)
            gradient.addcmul_(self.weights, self.decays)
            for rows, optimizer in self.optimizers:
                optimizer.step(self.weights[rows], gradient[rows], factor * self.rates[rows])

    @torch.no_grad()
    def logits(self, images: Tensor) -> Tensor:  # [G, batch, classes]
        return self.mode(images)

    def state_dict(self, network: int) -> dict[str, Tensor]:
        """Return a copy of the parameters and buffers of a network."""
        stacked = self.parameters | self.mode.buffers
        return {name: value[network].detach().clone() for name, value in stacked.items()}


def smoothed_cross_entropy(logits: Tensor, labels: Tensor, smoothing: Tensor) -> Tensor:
    """Return the mean loss of each network: `[G, batch, classes]`, `[batch]`, `[G]` -> `[G]`."""
    log_probs = functional.log_softmax(logits, -1)
    correct = log_probs.gather(-1, labels.expand(len(log_probs), -1).unsqueeze(-1)).squeeze(-1)
    return -((1 - smoothing) * correct.mean(1) + smoothing * log_probs.mean((1, 2)))
