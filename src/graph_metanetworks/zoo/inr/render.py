"""Draw INRs back as the signals and images that they were fitted to, at any resolution."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from graph_metanetworks.zoo.inr.conventions import Conventions
from graph_metanetworks.zoo.inr.grid import image_grid, signal_grid
from graph_metanetworks.zoo.inr.siren import Architecture, Siren

Size = int | tuple[int, int]


def render(network: Mapping[str, Tensor] | nn.Module, conventions: Conventions, size: Size) -> Tensor:
    """The values of an INR, in the range of `conventions`: a signal [points] or an image [channels, height, width].

    Args:
        network: the weights of a SIREN, or any network from coordinates to values.
        size: points of a signal; height and width of an image, or one number for both.

    >>> from graph_metanetworks.zoo.inr import EDITING
    >>> network = Siren(Architecture(inputs=2, outputs=3), EDITING)
    >>> render(network, EDITING, 32).shape, render(network.state_dict(), EDITING, (20, 30)).shape
    (torch.Size([3, 32, 32]), torch.Size([3, 20, 30]))
    """
    module = network if isinstance(network, nn.Module) else _siren(network, conventions)
    first = next(module.parameters())
    if isinstance(size, int) and _num_inputs(module) == 1:
        coordinates = signal_grid(size, conventions).coordinates
        return _values(module, coordinates.to(first)).squeeze(1)
    height, width = (size, size) if isinstance(size, int) else size
    coordinates = image_grid(height, width, conventions).coordinates
    return _values(module, coordinates.to(first)).T.unflatten(1, (height, width))


def _siren(weights: Mapping[str, Tensor], conventions: Conventions) -> Siren:
    # weights that are stored in half precision are rendered in single precision
    full = {name: tensor.float() if tensor.itemsize < 4 else tensor for name, tensor in weights.items()}
    siren = Siren(Architecture.of(full), conventions).to(next(iter(full.values())))
    siren.load_state_dict(full)
    return siren


def _num_inputs(module: nn.Module) -> int:
    return next(parameter for parameter in module.parameters() if parameter.dim() == 2).shape[1]


@torch.no_grad()
def _values(module: nn.Module, coordinates: Tensor) -> Tensor:  # [points, inputs] -> [points, outputs]
    return module(coordinates)
