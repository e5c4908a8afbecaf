"""The number of networks whose activations fit into the cache."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

MAX_ACTIVATIONS = 8 * 2**20  # bytes of a layer's output over all networks; a quarter of a usual cache


def networks_at_once(network: nn.Module, images: Tensor) -> int:
    """Return how many networks like this one can train together before large activations slow them down.

    It is at least two, since even then some layers benefit from hand-written gradients.

    >>> networks_at_once(nn.Linear(1024, 1024), torch.zeros(256, 1024))
    8
    """
    largest = images.numel() * images.element_size()

    def measure(module: nn.Module, inputs: object, output: object) -> None:
        nonlocal largest
        if isinstance(output, Tensor):
            largest = max(largest, output.numel() * output.element_size())

    trial = copy.deepcopy(network)
    for module in trial.modules():
        module.register_forward_hook(measure)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        trial(images)
    return max(2, MAX_ACTIVATIONS // largest)
