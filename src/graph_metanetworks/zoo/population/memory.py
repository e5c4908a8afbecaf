"""How many networks fit into a cache at once."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

LARGEST_ACTIVATIONS = 8 * 2**20  # bytes of a layer's output in all networks; a quarter of a processor's cache


def networks_at_once(network: nn.Module, images: Tensor) -> int:
    """How many networks like this one train together before their activations are too large to be fast.

    At least two, for even then some layers gain by gradients that are written by hand.

    >>> networks_at_once(nn.Linear(1024, 1024), torch.zeros(256, 1024))
    8
    """
    largest = images.numel() * images.element_size()

    def look(module: nn.Module, inputs: object, output: object) -> None:
        nonlocal largest
        if isinstance(output, Tensor):
            largest = max(largest, output.numel() * output.element_size())

    trial = copy.deepcopy(network)
    for module in trial.modules():
        module.register_forward_hook(look)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        trial(images)
    return max(2, LARGEST_ACTIVATIONS // largest)
