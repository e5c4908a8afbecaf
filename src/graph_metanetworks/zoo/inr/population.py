"""Fit many SIRENs at once, with the same result as `fit_alone` for each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from graph_metanetworks.zoo.inr.conventions import Conventions
from graph_metanetworks.zoo.inr.fitting import Fit, FitOptions
from graph_metanetworks.zoo.inr.gradients import Gradients
from graph_metanetworks.zoo.inr.grid import Grid
from graph_metanetworks.zoo.inr.siren import Architecture

SLOTS = 64  # networks that are fitted at a time, at least
FIRST_DECAY, SECOND_DECAY, EPSILON = 0.9, 0.999, 1e-8  # Adam's usual ones


def fit_population(
    architecture: Architecture,
    conventions: Conventions,
    grid: Grid,
    initial: Sequence[dict[str, Tensor]],
    targets: Tensor,  # [networks, outputs, points]
    options: FitOptions,
    *,
    progress: Callable[[float], None] = lambda share: None,
) -> list[Fit]:
    """Fit network `k`, which starts with the weights `initial[k]`, to `targets[k]`."""
    if targets.shape != (expected := (len(initial), architecture.outputs, grid.num_points)):
        raise ValueError(f"targets must be {list(expected)}, not {list(targets.shape)}")
    slots = _Slots(Gradients(architecture, conventions, grid, SLOTS), targets, options)
    fits: dict[int, Fit] = {}
    with torch.no_grad():
        for network, fit in slots.run(initial):
            fits[network] = fit
            progress(len(fits) / len(initial))
    return [fits[network] for network in range(len(initial))]


class _Slots:
    """Places in which networks are fitted; where one is done, the next takes its place."""

    def __init__(self, gradients: Gradients, targets: Tensor, options: FitOptions):
        self.gradients, self.targets, self.options = gradients, targets, options
        self.parameters = gradients.parameters
        self.own_targets = targets.new_zeros(gradients.networks, *targets.shape[1:])
        self.adam = _Adam(self.parameters.flat, gradients.gradients.flat, options)
        self.networks: list[int | None] = [None] * gradients.networks  # in each slot
        self.steps = [0] * gradients.networks

    def run(self, initial: Sequence[dict[str, Tensor]]) -> Iterator[tuple[int, Fit]]:
        waiting = iter(enumerate(initial))
        while True:
            free = [slot for slot, network in enumerate(self.networks) if network is None]
            # in this order zip takes no network for which there is no slot
            for slot, (network, weights) in zip(free, waiting, strict=False):
                self._fill(slot, network, weights)
            busy = [network is not None for network in self.networks]
            if not any(busy):
                return
            losses = self.gradients.compute(self.own_targets, busy).tolist()
            yield from self._take_out(losses)
            self.adam.update(self.steps)
            self.steps = [min(step + 1, self.options.steps) for step in self.steps]

    def _fill(self, slot: int, network: int, weights: dict[str, Tensor]) -> None:
        self.networks[slot], self.steps[slot] = network, 0
        self.parameters.load(slot, weights)
        self.own_targets[slot] = self.targets[network]
        self.adam.forget(slot)

    def _take_out(self, losses: Sequence[float]) -> Iterator[tuple[int, Fit]]:
        for slot, network in enumerate(self.networks):
            if network is None or not self.options.is_last(self.steps[slot], losses[slot]):
                continue
            self.networks[slot] = None
            yield network, Fit(self.parameters.state_dict(slot), losses[slot], self.steps[slot])


class _Adam:
    """`torch.optim.Adam`, with a step count for each row."""

    def __init__(self, values: Tensor, gradients: Tensor, options: FitOptions):
        self.values, self.gradients, self.weight_decay = values, gradients, options.weight_decay
        self.first_moments, self.second_moments = torch.zeros_like(values), torch.zeros_like(values)
        self.denominators = torch.empty_like(values)
        # a row whose network is done makes one more step, which is not used
        counts = torch.arange(1, options.steps + 2, dtype=torch.float64)
        rates = [options.rate(step) for step in range(options.steps)] + [0.0]
        sizes = torch.tensor(rates, dtype=torch.float64) / (1 - FIRST_DECAY**counts)
        self.step_sizes = sizes.to(values.dtype)[:, None]
        self.corrections = (1 - SECOND_DECAY**counts).sqrt().to(values.dtype)[:, None]

    def forget(self, row: int) -> None:
        self.first_moments[row] = 0
        self.second_moments[row] = 0

    def update(self, steps: list[int]) -> None:
        """Update every row; `steps` says how many updates it has had."""
        gradients, denominators = self.gradients, self.denominators
        if self.weight_decay:
            gradients.add_(self.values, alpha=self.weight_decay)
        self.first_moments.lerp_(gradients, 1 - FIRST_DECAY)
        self.second_moments.mul_(SECOND_DECAY).addcmul_(gradients, gradients, value=1 - SECOND_DECAY)
        torch.sqrt(self.second_moments, out=denominators).div_(self.corrections[steps]).add_(EPSILON)
        self.values.sub_(denominators.reciprocal_().mul_(self.first_moments).mul_(self.step_sizes[steps]))
