"""Render INRs as signals and images, at any resolution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from graph_metanetworks.zoo.inr.conventions import Conventions
from graph_metanetworks.zoo.inr.grid import make_grid
from graph_metanetworks.zoo.inr.siren import Siren, SirenArchitecture


@torch.no_grad()
def render(
    network: Mapping[str, Tensor] | nn.Module,
    conventions: Conventions,
    size: int | Sequence[int] | None = None,
) -> Tensor:
    """Render an INR as a signal [points] or an image [channels, height, width], in the range of its data.

    Args:
        network: the weights of a SIREN, or any network from coordinates to values.
        size: points of a signal, or height and width of an image (one number for both); by default as fitted.

    >>> from graph_metanetworks.zoo.inr import EDITING
    >>> network = Siren(SirenArchitecture(inputs=2, outputs=3), EDITING)
    >>> render(network, EDITING, 32).shape, render(network.state_dict(), EDITING, (20, 30)).shape
    (torch.Size([3, 32, 32]), torch.Size([3, 20, 30]))
    """
    module = network if isinstance(network, nn.Module) else _siren(network, conventions)
    coordinates = make_grid(conventions, size, dtype=torch.float64).coordinates
    values = module(coordinates.to(next(module.parameters())))  # [points, outputs]
    return values[:, 0] if conventions.order == "x" else values.T.unflatten(1, conventions.resolve_size(size))


def with_weights(network: nn.Module, weights: Mapping[str, Tensor]) -> nn.Module:
    """Load weights into a network, in their precision; those in half precision become single precision."""
    full = {name: tensor.float() if tensor.itemsize < 4 else tensor for name, tensor in weights.items()}
    network.to(next(iter(full.values())).dtype).load_state_dict(full)
    return network


def _siren(weights: Mapping[str, Tensor], conventions: Conventions) -> nn.Module:
    return with_weights(Siren(SirenArchitecture.of(dict(weights)), conventions), weights)
