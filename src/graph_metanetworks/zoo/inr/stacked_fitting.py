"""Fit many INRs with encodings at once, each with the same result as `fit_alone` up to rounding."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from graph_metanetworks.zoo.inr.encoded import EncodedInr, Features
from graph_metanetworks.zoo.inr.fitting import Fit, FitOptions
from graph_metanetworks.zoo.population.optimizers import Adam

TOGETHER = 16  # networks whose activations fit into the cache


def fit_stacked(
    networks: Sequence[EncodedInr],
    coordinates: Tensor,  # [points, inputs]
    targets: Tensor,  # [networks, outputs, points]
    options: FitOptions,
    *,
    progress: Callable[[float], None] = lambda fraction: None,
) -> list[Fit]:
    """Fit network `k` to `targets[k]`. The networks are of one architecture, and stay as they are.

    All steps are made, whatever the loss.
    """
    if options.weight_decay or options.stop_loss is not None:
        raise ValueError("fit_stacked has no weight decay and no stop_loss: leave both out of the options")
    fits: list[Fit] = []
    for start in range(0, len(networks), TOGETHER):
        chosen = networks[start : start + TOGETHER]
        stack = _Stack(chosen, coordinates, targets[start : start + TOGETHER])
        for step in range(options.steps):
            stack.step(options.rate(step))
            progress((start + len(chosen) * (step + 1) / options.steps) / len(networks))
        losses = stack.losses().tolist()
        fits += [Fit(stack.state_dict(n), loss, options.steps) for n, loss in enumerate(losses)]
    return fits


class _Stack:
    """Networks of one architecture with stacked weights, one row each in `flat`."""

    def __init__(self, networks: Sequence[EncodedInr], coordinates: Tensor, targets: Tensor) -> None:
        first = networks[0]
        parameters = _stacked([dict(network.named_parameters()) for network in networks])
        self.buffers = _stacked([dict(network.named_buffers()) for network in networks])
        self.saved = tuple(first.state_dict())
        self.flat = torch.cat([value.flatten(1) for value in parameters.values()], dim=1)  # [G, parameters]
        sizes = [value[0].numel() for value in parameters.values()]
        self.parameters = {
            name: part.view(value.shape).requires_grad_()
            for (name, value), part in zip(parameters.items(), self.flat.split(sizes, dim=1), strict=True)
        }
        self.features: Features = first.stacked_encoder(coordinates, self.buffers)
        self.linear = [name for name in self.parameters if name.startswith("decoder.")]
        self.targets = targets.mT - first.conventions.output_offset  # [G, points, outputs]
        self.adam = Adam(self.flat)

    def losses(self) -> Tensor:  # [G]
        x = self.features(self.parameters)
        pairs = list(zip(self.linear[::2], self.linear[1::2], strict=True))
        for number, (weight, bias) in enumerate(pairs):
            x = torch.baddbmm(self.parameters[bias].unsqueeze(1), x, self.parameters[weight].mT)
            x = x.relu() if number < len(pairs) - 1 else x
        return (x - self.targets).square().mean((1, 2))

    def step(self, rate: float) -> None:
        gradients = torch.autograd.grad(self.losses().sum(), list(self.parameters.values()))
        with torch.no_grad():
            gradient = torch.cat([each.flatten(1) for each in gradients], dim=1)
            self.adam.step(self.flat, gradient, self.flat.new_full((len(self.flat), 1), rate))

    def state_dict(self, network: int) -> dict[str, Tensor]:
        stacked = self.parameters | self.buffers
        return {name: stacked[name][network].detach().clone() for name in self.saved}


def _stacked(each: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    return {name: torch.stack([one[name].detach() for one in each]) for name in each[0]}
