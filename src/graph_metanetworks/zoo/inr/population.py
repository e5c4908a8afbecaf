"""Fit many SIRENs at once, each with the same result as `fit_alone`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from graph_metanetworks.zoo.inr.conventions import Conventions
from graph_metanetworks.zoo.inr.fitting import Fit, FitOptions
from graph_metanetworks.zoo.inr.gradients import Gradients
from graph_metanetworks.zoo.inr.grid import Grid
from graph_metanetworks.zoo.inr.siren import SirenArchitecture

SLOTS = 64  # minimum number of networks that are fitted at a time
BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8  # the defaults of torch.optim.Adam


def fit_population(
    architecture: SirenArchitecture,
    conventions: Conventions,
    grid: Grid,
    initial: Sequence[dict[str, Tensor]],
    targets: Tensor,  # [networks, outputs, points]
    options: FitOptions,
    *,
    progress: Callable[[float], None] = lambda fraction: None,
) -> list[Fit]:
    """Fit network `k`, starting from the weights `initial[k]`, to `targets[k]`."""
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
    """Slots in which networks are fitted. When one is finished, the next takes its slot."""

    def __init__(self, gradients: Gradients, targets: Tensor, options: FitOptions):
        self.gradients, self.targets, self.options = gradients, targets, options
        self.parameters = gradients.parameters
        self.slot_targets = targets.new_zeros(gradients.networks, *targets.shape[1:])
        self.adam = _Adam(self.parameters.flat, gradients.gradients.flat, options)
        self.networks: list[int | None] = [None] * gradients.networks  # by slot
        self.steps = [0] * gradients.networks

    def run(self, initial: Sequence[dict[str, Tensor]]) -> Iterator[tuple[int, Fit]]:
        waiting = iter(enumerate(initial))
        while True:
            free = [slot for slot, network in enumerate(self.networks) if network is None]
            # with `free` first, zip takes no network from `waiting` without a slot for it
            for slot, (network, weights) in zip(free, waiting, strict=False):
                self._fill(slot, network, weights)
            busy = [network is not None for network in self.networks]
            if not any(busy):
                return
            losses = self.gradients.compute(self.slot_targets, busy).tolist()
            yield from self._finished(losses)
            self.adam.update(self.steps)
            self.steps = [min(step + 1, self.options.steps) for step in self.steps]

    def _fill(self, slot: int, network: int, weights: dict[str, Tensor]) -> None:
        self.networks[slot], self.steps[slot] = network, 0
        self.parameters.load(slot, weights)
        self.slot_targets[slot] = self.targets[network]
        self.adam.reset(slot)

    def _finished(self, losses: Sequence[float]) -> Iterator[tuple[int, Fit]]:
        for slot, network in enumerate(self.networks):
            if network is None or not self.options.is_last(self.steps[slot], losses[slot]):
                continue
            self.networks[slot] = None
            yield network, Fit(self.parameters.state_dict(slot), losses[slot], self.steps[slot])


class _Adam:
    """`torch.optim.Adam` with a step count per row."""

    def __init__(self, values: Tensor, gradients: Tensor, options: FitOptions):
        self.values, self.gradients, self.weight_decay = values, gradients, options.weight_decay
        self.exp_avg, self.exp_avg_sq = torch.zeros_like(values), torch.zeros_like(values)
        self.denominators = torch.empty_like(values)
        # a row whose network is finished makes one more step, which is not used
        counts = torch.arange(1, options.steps + 2, dtype=torch.float64)
        rates = [options.rate(step) for step in range(options.steps)] + [0.0]
        sizes = torch.tensor(rates, dtype=torch.float64) / (1 - BETA1**counts)
        self.step_sizes = sizes.to(values.dtype)[:, None]
        self.corrections = (1 - BETA2**counts).sqrt().to(values.dtype)[:, None]

    def reset(self, row: int) -> None:
        self.exp_avg[row] = 0
        self.exp_avg_sq[row] = 0

    def update(self, steps: list[int]) -> None:
        """Update every row. `steps` are the numbers of its previous updates."""
        gradients, denominators = self.gradients, self.denominators
        if self.weight_decay:
            gradients.add_(self.values, alpha=self.weight_decay)
        self.exp_avg.lerp_(gradients, 1 - BETA1)
        self.exp_avg_sq.mul_(BETA2).addcmul_(gradients, gradients, value=1 - BETA2)
        torch.sqrt(self.exp_avg_sq, out=denominators).div_(self.corrections[steps]).add_(EPSILON)
        self.values.sub_(denominators.reciprocal_().mul_(self.exp_avg).mul_(self.step_sizes[steps]))
